"""`Denials`: tokens and subjects that the relay refuses although their signatures are right.

A denial is a record `relay-denial.1` and counts until it is taken back. Its scope is a tenant, or
empty for all of them; its id begins with `jti:` or `sub:`. All of them are in the memory of every
node.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.errors import Conflict, InvalidParams, RouteNotFound
from trunkline.ports.clock import Clock
from trunkline.ports.records import Delete, Key, Put
from trunkline.relay.tenants.jwt_claims import Holder, is_tenant
from trunkline.runtime.record_changes import RecordChanges, Touched

DENIAL: Final = "relay-denial.1"
MAX_DENIALS: Final = 100_000
_KIND: Final = "denial"
_PAGE: Final = 1000
_NAME: Final = re.compile(r"[!-~]{1,160}")

What: TypeAlias = Literal["jti", "sub"]


class Denial(Struct, frozen=True, kw_only=True):
    # Empty for all tenants.
    tenant: str
    what: What
    # The id of a token; or the claim `sub` or `user_id` of tokens, or their principal.
    name: str
    created_ms: int

    @property
    def id(self) -> str:
        return f"{self.what}:{self.name}"


class _Body(Struct, frozen=True):
    created_ms: int


_decode: Final = msgspec.json.Decoder(_Body).decode


class Denials:
    def __init__(self, changes: RecordChanges, *, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock
        # By tenant and id.
        self._held: dict[tuple[str, str], Denial] = {}
        self._on_change: list[Callable[[], None]] = []
        changes.follow(_KIND, self._follow)

    def on_change(self, call: Callable[[], None]) -> None:
        self._on_change.append(call)

    def deny(self, holder: Holder) -> bool:
        """Whether one of them means the token or its holder."""
        if not self._held:
            return False
        ids = [f"sub:{name}" for name in holder.names]
        if holder.jti:
            ids.append(f"jti:{holder.jti}")
        return any((scope, id) in self._held for scope in ("", holder.tenant) for id in ids)

    def all(self) -> Sequence[Denial]:
        return [self._held[key] for key in sorted(self._held)]

    async def add(self, what: What, name: str, *, tenant: str = "") -> Denial:
        """When it returns, every node refuses what it means. Raises InvalidParams, Conflict and
        StoreError."""
        if not _NAME.fullmatch(name):
            raise InvalidParams.at(what, "use up to 160 visible ASCII characters")
        if tenant and not is_tenant(tenant):
            raise InvalidParams.at("tenant", "use up to 64 letters, digits and hyphens")
        if len(self._held) >= MAX_DENIALS:
            raise Conflict(f"The relay has {MAX_DENIALS} denials; take some of them back")
        made = Denial(tenant=tenant, what=what, name=name, created_ms=self._clock.now_ms())
        body = msgspec.json.encode(_Body(made.created_ms))
        await self._changes.commit(
            Put(key=Key(DENIAL, tenant, made.id), body=body),
            touched=[_touched(tenant, made.id)],
            restricts=True,
        )
        return made

    async def take_back(self, what: What, name: str, *, tenant: str = "") -> None:
        """Raises RouteNotFound and StoreError."""
        key = Key(DENIAL, tenant, f"{what}:{name}")
        if await self._changes.store.record(key) is None:
            where = f" in the tenant {tenant}" if tenant else ""
            raise RouteNotFound(f"There is no denial of {key.id[:200]!r}{where}")
        await self._changes.commit(Delete(key=key), touched=[_touched(tenant, key.id)])

    async def _follow(self, _: Sequence[str] | None) -> None:
        """Read all of them: operators change few, and seldom."""
        held: dict[tuple[str, str], Denial] = {}
        after = None
        while page := await self._changes.store.records(DENIAL, after=after, limit=_PAGE):
            for record in page:
                what, _, name = record.key.id.partition(":")
                denial = Denial(
                    tenant=record.key.scope,
                    what="jti" if what == "jti" else "sub",
                    name=name,
                    created_ms=_decode(record.body).created_ms,
                )
                held[denial.tenant, denial.id] = denial
            after = page[-1].key
        self._held = held
        for call in self._on_change:
            call()


def _touched(tenant: str, id: str) -> Touched:
    """For the audit; nodes read all of them."""
    return Touched(_KIND, f"{tenant} {id}".lstrip())
