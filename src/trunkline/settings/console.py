"""`ConsoleSettings`: the page of the gateway."""

from typing import Annotated, Literal

from msgspec import Struct

from trunkline.config import doc


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page of the gateway, at `/`."""

    enabled: Annotated[bool, doc("Whether there is a page.")] = True
    hosts: Annotated[
        tuple[str, ...],
        doc(
            "Further host names under which browsers may open the page, beside loopback, the "
            "hosts of `public_url`, and, on a gateway that other machines reach, its addresses."
        ),
    ] = ()
    visits: Annotated[
        Literal["never", "public", "any"],
        doc(
            "Which agents elsewhere operators may visit from the page: the gateway publishes one "
            "as `visit/NAME` until it stops. `public`: those at public addresses. `any`: also "
            "those in private networks and on this machine."
        ),
    ] = "never"
    wire_bytes: Annotated[
        int,
        doc(
            "What recorded requests may take in memory. An operator switches the recording of an "
            "agent on; the oldest requests make room for new ones.",
            ge=1024 * 1024,
        ),
    ] = 32 * 1024 * 1024
