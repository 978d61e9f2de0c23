"""`Tenants`: those of the configuration and those of the store, in the memory of every node."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.errors import (
    Conflict,
    InvalidParams,
    InvalidRequest,
    RecordConflict,
    RouteNotFound,
)
from trunkline.model.handles import folded
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Put
from trunkline.relay.tenants.jwt_claims import Expected, is_tenant
from trunkline.relay.tenants.records import TENANT, Tenant, TenantSecret, decode, encode, key_of
from trunkline.relay.tenants.settings import TenantSettings, TokenSettings
from trunkline.runtime.record_changes import RecordChanges, Touched

# Each is in the memory of every node.
MAX_TENANTS: Final = 10_000
# Secrets that count at a time: the one in use, and those within their grace.
MAX_SECRETS: Final = 5
_SECRET_BYTES: Final = 32
_KIND: Final = "tenant"
_PAGE: Final = 500

# Told which tenants have changed; None means any of them.
OnChange: TypeAlias = Callable[[Sequence[str] | None], None]


class Signer(Struct, frozen=True):
    """A secret that signs tokens."""

    # Empty for one without a name.
    id: str
    secret: bytes
    ends_ms: int | None = None

    def __repr__(self) -> str:
        return f"Signer(id={self.id!r})"


class KnownTenant(Struct, frozen=True, kw_only=True):
    name: str
    # None for one of the store alone.
    settings: TenantSettings | None
    # None for one of the configuration that no command has changed.
    record: Tenant | None

    @property
    def is_removed(self) -> bool:
        return self.record is not None and self.record.removed_ms is not None

    @property
    def is_disabled(self) -> bool:
        return self.record is not None and (self.record.is_disabled or self.is_removed)

    def signers(self, now_ms: int) -> Iterator[Signer]:
        """The one in use first."""
        if self.settings is not None:
            for id, each in self.settings.secrets_by_id.items():
                yield Signer(id, each.reveal().encode())
            for each in self.settings.secrets:
                yield Signer("", each.reveal().encode())
        for stored in self.record.secrets if self.record is not None else ():
            if stored.is_active(now_ms):
                yield Signer(stored.id, stored.secret.encode(), stored.ends_ms)


class Tenants:
    def __init__(
        self,
        settings: TokenSettings,
        changes: RecordChanges,
        *,
        clock: Clock,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._settings = settings
        self._changes = changes
        self._clock = clock
        self._random_bytes = random_bytes
        self._recorded: dict[str, Tenant] = {}
        self._on_change: list[OnChange] = []
        changes.follow(_KIND, self._follow)

    def on_change(self, call: OnChange) -> None:
        self._on_change.append(call)

    # What is in memory.

    def find(self, name: str) -> KnownTenant | None:
        """Also one that was removed."""
        settings, record = self._settings.tenants.get(name), self._recorded.get(name)
        if settings is None and record is None:
            return None
        return KnownTenant(name=name, settings=settings, record=record)

    def all(self) -> Iterator[KnownTenant]:
        """Those that were not removed."""
        for name in sorted({*self._settings.tenants, *self._recorded}):
            found = self.find(name)
            if found is not None and not found.is_removed:
                yield found

    def is_taken(self, name: str) -> bool:
        """Whether a tenant has or had the name."""
        return folded(name) in self._taken()

    def _taken(self) -> Mapping[str, str]:
        # For people, names that differ only in case are one.
        return {folded(each): each for each in (*self._settings.tenants, *self._recorded)}

    @property
    def shared_signers(self) -> Sequence[Signer]:
        """Those of every tenant that is not disabled, whether or not the relay knows it."""
        return [Signer("", each.reveal().encode()) for each in self._settings.secrets]

    def expected(self, tenant: KnownTenant | None) -> Expected:
        """The claims that a token of the tenant must have."""
        own = None if tenant is None else tenant.settings
        return Expected(
            issuer=(own.issuer if own is not None else "") or self._settings.issuer,
            audience=(own.audience if own is not None else "") or self._settings.audience,
        )

    # Changes.

    async def add(self, name: str) -> TenantSecret:
        """Raises InvalidParams, Conflict and StoreError."""
        if not is_tenant(name):
            raise InvalidParams.at("name", "use up to 64 letters, digits and hyphens")
        if twin := self._taken().get(folded(name)):
            known = self.find(twin)
            if known is not None and known.is_removed:
                raise Conflict(
                    f"There was a tenant {twin!r}, and messages for its agents may still wait; "
                    "choose another name"
                )
            raise Conflict(f"There is a tenant {twin!r} already")
        if sum(1 for _ in self.all()) >= MAX_TENANTS:
            raise Conflict(f"The relay has {MAX_TENANTS} tenants; remove some of them")
        now_ms = self._clock.now_ms()
        secret = self._new_secret(now_ms)
        await self._put(name, Tenant(created_ms=now_ms, secrets=(secret,)), expected=0)
        return secret

    async def set_disabled(self, name: str, *, is_disabled: bool) -> None:
        """Raises RouteNotFound, Conflict and StoreError."""
        if self.find(name) is None:
            raise unknown_tenant(name)
        stored, version = await self._stored(name)
        if stored is not None and stored.removed_ms is not None:
            raise unknown_tenant(name)
        before = stored or Tenant(created_ms=self._clock.now_ms())
        changed = replace(before, is_disabled=is_disabled)
        await self._put(name, changed, expected=version, restricts=is_disabled)

    async def rotate(self, name: str, *, grace_s: float) -> TenantSecret:
        """A new secret; those before it end after the grace. Raises RouteNotFound, InvalidRequest,
        Conflict and StoreError."""
        tenant, version = await self._of_the_store(name)
        now_ms = self._clock.now_ms()
        ends_ms = now_ms + round(grace_s * 1000)
        old = (
            replace(each, ends_ms=ends_ms if each.ends_ms is None else min(each.ends_ms, ends_ms))
            for each in tenant.secrets
        )
        kept = [each for each in old if each.is_active(now_ms)]
        if len(kept) >= MAX_SECRETS:
            raise InvalidRequest(
                f"{MAX_SECRETS} secrets of the tenant count now; rotate once some have ended, or "
                "with a shorter grace"
            )
        secret = self._new_secret(now_ms)
        # Also where the old secret counts for a while: the grace of an older one may have become
        # shorter.
        changed = replace(tenant, secrets=(secret, *kept))
        await self._put(name, changed, expected=version, restricts=True)
        return secret

    async def remove(self, name: str) -> None:
        """Its secrets are gone, and its name stays taken. Raises RouteNotFound, InvalidRequest,
        Conflict and StoreError."""
        before, version = await self._of_the_store(name)
        removed = Tenant(created_ms=before.created_ms, removed_ms=self._clock.now_ms())
        await self._put(name, removed, expected=version, restricts=True)

    async def _stored(self, name: str) -> tuple[Tenant | None, int]:
        """The record and its version, as the store has them now."""
        record = await self._changes.store.record(key_of(name))
        return (None, 0) if record is None else (decode(record.body), record.version)

    async def _of_the_store(self, name: str) -> tuple[Tenant, int]:
        if name in self._settings.tenants:
            raise InvalidRequest(
                f"The tenant {name} is in the configuration: change its table "
                f"[relay_server.tenants.{name}] there, and start the relay again"
            )
        tenant, version = await self._stored(name)
        if tenant is None or tenant.removed_ms is not None:
            raise unknown_tenant(name)
        return tenant, version

    def _new_secret(self, now_ms: int) -> TenantSecret:
        return TenantSecret(
            id=self._random_bytes(6).hex(),
            secret=self._random_bytes(_SECRET_BYTES).hex(),
            created_ms=now_ms,
        )

    async def _put(
        self, name: str, tenant: Tenant, *, expected: int, restricts: bool = False
    ) -> None:
        change = Put(key=key_of(name), body=encode(tenant), expected=expected)
        await self._commit(name, change, restricts=restricts)

    async def _commit(self, name: str, *changes: Change, restricts: bool) -> None:
        try:
            await self._changes.commit(
                *changes, touched=[Touched(_KIND, name)], restricts=restricts
            )
        except RecordConflict:
            raise Conflict(f"The tenant {name} has just changed; try again") from None

    async def _follow(self, names: Sequence[str] | None) -> None:
        if names is None:
            self._recorded = dict(await self._read_all())
        else:
            for name in names:
                record = await self._changes.store.record(key_of(name))
                if record is None:
                    self._recorded.pop(name, None)
                else:
                    self._recorded[name] = decode(record.body)
        for call in self._on_change:
            call(names)

    async def _read_all(self) -> Mapping[str, Tenant]:
        found: dict[str, Tenant] = {}
        after = None
        while page := await self._changes.store.records(TENANT, scope="", after=after, limit=_PAGE):
            found |= {record.key.id: decode(record.body) for record in page}
            after = page[-1].key
        return found


def unknown_tenant(name: str) -> RouteNotFound:
    return RouteNotFound(f"There is no tenant {name[:100]!r}; see: trunkline relay tenant list")
