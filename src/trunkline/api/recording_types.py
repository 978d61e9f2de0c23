"""`NewRecording` and `RecordingView`: agents that play recorded tasks again."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from trunkline.model.recordings import MAX_GAP_MS

_SLUG: Final = r"^([a-z0-9][a-z0-9-]{0,62})?$"


class RecordingView(Struct, frozen=True, kw_only=True, rename="camel"):
    slug: str
    handle: str
    agent: str
    task_id: str
    turns: int
    events: int
    max_gap_ms: int
    created_at: str
    created_by: str
    durable: bool
    problem: str
    card_path: str
    jsonrpc_path: str


class NewRecording(Struct, frozen=True, kw_only=True, rename="camel"):
    task_id: Annotated[str, Meta(min_length=1, max_length=256)]
    slug: Annotated[str, Meta(pattern=_SLUG)] = ""
    max_gap_ms: Annotated[int, Meta(ge=0, le=MAX_GAP_MS)] = 2000


class RecordingList(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[RecordingView]
