"""`GatewayView`: what the gateway is and can do; `NodeView`: one of several on a store."""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

SignIn: TypeAlias = Literal["code", "hub", "key"]
Visiting: TypeAlias = Literal["never", "public", "any"]


class GatewayView(Struct, frozen=True, kw_only=True, rename="camel"):
    """The gateway, as the caller may see it."""

    name: str
    version: str
    # The versions of A2A.
    a2a: list[str]
    sign_in: SignIn
    hub: bool
    features: dict[str, bool]
    # The rest is for operators.
    public_url: str | UnsetType = UNSET
    store: str | UnsetType = UNSET
    nodes: int | UnsetType = UNSET
    problems: list[str] | UnsetType = UNSET
    anonymous: bool | UnsetType = UNSET
    faults: bool | UnsetType = UNSET
    visits: Visiting | UnsetType = UNSET


class NodeView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A gateway that uses the main store."""

    # Empty for a gateway whose store belongs to one process.
    node: str
    host: str
    pid: int
    release: str
    started_at: str
    is_alive: bool
    # None for a store that belongs to one process.
    beat_ago_s: float | None
    lanes: int | None
    # Whether it has answered.
    is_here: bool


class NodeList(Struct, frozen=True, kw_only=True):
    items: list[NodeView]
