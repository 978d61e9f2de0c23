"""`ClusterSettings`: how gateways that share a PostgreSQL store notice that one of them is gone."""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Problem, bad_value
from trunkline.config.urls import web_url_fault
from trunkline.ports.cluster import Times

NODE_URL_EXAMPLE: Final = 'Example: node_url = "http://10.0.0.11:8642".'


class ClusterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gateways that share a PostgreSQL store. All of them have the same values."""

    beat_s: Annotated[
        float,
        doc("Seconds between the signs of life that a gateway writes.", ge=0.1, le=60),
    ] = 2.0
    lease_s: Annotated[
        float,
        doc(
            "Seconds after its last sign of life until the others take over the work of a "
            "gateway. It stops its own turns after five sixths of that time. More than 2.4 times "
            "`beat_s`.",
            ge=0.5,
            le=600,
        ),
    ] = 6.0

    node_url: Annotated[
        str,
        doc(
            "Base URL at which the other gateways reach this one, each its own: "
            '`node_url = "http://${NODE_ADDRESS}:8642"`. Relays pass requests on there. Empty: '
            "the address and port of `[server]`, unless it listens on all addresses."
        ),
    ] = ""

    @property
    def times(self) -> Times:
        return Times(self.beat_s, self.lease_s)


def cluster_problems(cluster: ClusterSettings) -> Iterator[Problem]:
    times = cluster.times
    if cluster.node_url and (fault := web_url_fault(cluster.node_url)):
        yield bad_value(("cluster", "node_url"), fault, NODE_URL_EXAMPLE)
    if 2 * times.beat_s >= times.trust_s:
        least = 2.4 * times.beat_s
        yield bad_value(
            ("cluster", "lease_s"),
            f"one late sign of life would end the turns of a gateway that beats every "
            f"{times.beat_s:g} s",
            f"Set lease_s above {least:g}, or beat_s lower.",
            reads=(("cluster", "beat_s"),),
        )
