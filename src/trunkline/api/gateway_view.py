"""`GatewayView`: what the gateway is and can do."""

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
