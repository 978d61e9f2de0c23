"""The queries, bodies and results of the routes of the wire log and of faults."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from trunkline.model.findings import Finding
from trunkline.ports.wire_log import Side, WireRecord, WireSummary

MAX_PAGE: Final = 500
MAX_MINUTES: Final = 7 * 24 * 60
MAX_DELAY_MS: Final = 60_000
MAX_EVENTS: Final = 1_000_000
MAX_FAULT_S: Final = 600

_Id = Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")]


class WireQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=128)] = ""
    task_id: Annotated[str, Meta(max_length=256)] = ""
    side: Side | None = None
    q: Annotated[str, Meta(max_length=200)] = ""
    after: _Id = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


class WireExportQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    agent: Annotated[str, Meta(max_length=128)] = ""
    task_id: Annotated[str, Meta(max_length=256)] = ""


class WirePage(Struct, frozen=True, kw_only=True, rename="camel"):
    items: list[WireSummary]
    # None on the last page.
    next_after: str | None
    dropped: int


class WireDetails(WireRecord, frozen=True, kw_only=True, rename="camel"):
    findings: list[Finding]


class RecordedAgent(Struct, frozen=True, kw_only=True):
    id: str
    handle: str
    on: bool
    until: str | None


class WireSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    agents: list[RecordedAgent]
    bytes: int
    max_bytes: int
    records: int
    dropped: int


class RecordingBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    on: bool
    minutes: Annotated[float, Meta(gt=0, le=MAX_MINUTES)] | None = None


class WireSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that the page opens without the gateway."""

    format: Literal["trunkline-session.1"]
    exported_at: str
    gateway: str
    records: list[WireRecord]
    tasks: list[dict[str, Any]]


class FaultBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    delay_ms: Annotated[int, Meta(ge=0, le=MAX_DELAY_MS)] = 0
    cut_after_events: Annotated[int, Meta(ge=0, le=MAX_EVENTS)] | None = None
    duplicate_every: Annotated[int, Meta(ge=0, le=MAX_EVENTS)] = 0
    seconds: Annotated[float, Meta(gt=0, le=MAX_FAULT_S)] = 60


class FaultView(Struct, frozen=True, kw_only=True, rename="camel"):
    on: bool
    delay_ms: int = 0
    cut_after_events: int | None = None
    duplicate_every: int = 0
    until: str | None = None
