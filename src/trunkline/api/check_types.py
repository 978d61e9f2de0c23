"""`CheckRequest` and `CheckResult`: a message to check, and what is wrong with it."""

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from trunkline.model.findings import Finding

_MAX_EVENTS: Final = 10_000


class CheckRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    direction: Literal["request", "response", "event", "card"] = "event"
    binding: Literal["jsonrpc", "rest"] = "jsonrpc"
    # `auto` is for cards: the version of their members.
    version: Literal["1.0", "0.3", "hub", "auto"] = "1.0"
    operation: Annotated[str, Meta(max_length=128)] = ""
    status: Annotated[int, Meta(ge=100, le=599)] | None = None
    headers: dict[str, str] | None = None
    query: str | None = None
    body: Any | UnsetType = UNSET
    text: str | None = None
    events: Annotated[list[Any], Meta(max_length=_MAX_EVENTS)] | None = None
    resumed: bool = False
    complete: bool = True


class CheckResult(Struct, frozen=True, kw_only=True, rename="camel"):
    findings: list[Finding]
