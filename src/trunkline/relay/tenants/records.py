"""`Tenant` and `TenantSecret`: a tenant as its record `relay-tenant.1` holds it.

The record of a tenant of the configuration says only whether it is disabled.
"""

from typing import Final

import msgspec
from msgspec import Struct

from trunkline.ports.records import Key

TENANT: Final = "relay-tenant.1"


class TenantSecret(Struct, frozen=True, kw_only=True, omit_defaults=True):
    # The `kid` of tokens that the relay makes with it.
    id: str
    secret: str
    created_ms: int
    # When tokens that it has signed count no more; None for the secret in use.
    ends_ms: int | None = None

    def is_active(self, now_ms: int) -> bool:
        return self.ends_ms is None or now_ms < self.ends_ms

    def __repr__(self) -> str:
        return f"TenantSecret(id={self.id!r})"


class Tenant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Its scope is empty, and its id the name."""

    created_ms: int
    secrets: tuple[TenantSecret, ...] = ()
    is_disabled: bool = False
    # Its name is not given to others: messages for its agents may wait in mailboxes.
    removed_ms: int | None = None


encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(Tenant).decode


def key_of(name: str) -> Key:
    return Key(TENANT, "", name)
