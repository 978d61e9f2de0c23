"""`ClusterSettings`: how gateways that share a PostgreSQL store notice that one of them is gone."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Problem, bad_value
from trunkline.ports.cluster import Times


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

    @property
    def times(self) -> Times:
        return Times(self.beat_s, self.lease_s)


def cluster_problems(cluster: ClusterSettings) -> Iterator[Problem]:
    times = cluster.times
    if 2 * times.beat_s >= times.trust_s:
        least = 2.4 * times.beat_s
        yield bad_value(
            ("cluster", "lease_s"),
            f"one late sign of life would end the turns of a gateway that beats every "
            f"{times.beat_s:g} s",
            f"Set lease_s above {least:g}, or beat_s lower.",
            reads=(("cluster", "beat_s"),),
        )
