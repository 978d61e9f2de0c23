"""`ConsoleSettings`: the page of the gateway, and what is recorded for it."""

from typing import Annotated

from msgspec import Struct

from trunkline.config import doc


class ConsoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page at `/`."""

    wire_bytes: Annotated[
        int,
        doc(
            "What recorded requests may take in memory. An operator switches the recording of an "
            "agent on; the oldest requests make room for new ones.",
            ge=1024 * 1024,
        ),
    ] = 32 * 1024 * 1024
