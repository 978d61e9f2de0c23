"""`Tokens`: the tokens that the hub issued: sessions of people, keys, and access tokens.

A token is shown once, when it is issued. Its record has the digest, by which a request finds it. A
node holds the principals of the tokens that it saw last, and trusts them while `RecordChanges` says
that memory is fresh; then a request costs one look-up. Otherwise it asks the store.
"""

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.hub.grants import Grants
from trunkline.hub.token_values import (
    ID,
    Kind,
    Scope,
    Style,
    Token,
    digest_of,
    has_digest,
    id_of,
    new_text,
    prefix_of,
    principal_of,
)
from trunkline.model.errors import (
    Conflict,
    InvalidRequest,
    RecordConflict,
    RouteNotFound,
    Unauthenticated,
)
from trunkline.model.handles import folded
from trunkline.model.principal import Grant, Principal
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Delete, Key, Put, Record
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.record_changes import RecordChanges, Touched

TOKEN: Final = "token.1"
USED: Final = "token-used.1"
# The latest token of each service, by the name of the service.
SERVICE: Final = "service.1"

_SERVICE_PREFIX: Final = "token:"
_OWNER_PREFIX: Final = "owner:"
# For how long lists show a token that has ended. Access tokens are many and short.
_KEPT_MS: Final = 30 * 24 * 3600 * 1000
_ACCESS_KEPT_MS: Final = 3600 * 1000
_PAGE: Final = 100
# An agent that calls others has an access token for the one of its caller.
_MAX_PARENTS: Final = 32

# One text for every token that is not valid, so that it tells nothing about which exist.
REFUSED: Final = "The API key is not known here; check it or ask for a new one"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Token).decode


class Issued(Struct, frozen=True, kw_only=True):
    """A new token. Only this holds its text."""

    token: str
    id: str
    prefix: str
    expires_ms: int | None

    def __repr__(self) -> str:
        return f"Issued(id={self.id!r}, prefix={self.prefix!r})"


class Listed(Struct, frozen=True, kw_only=True):
    token: Token
    # When it was last used, to the minute; None if that is not known.
    used_ms: int | None


class Valid(Struct, frozen=True, kw_only=True):
    """A token that was found to be active."""

    token: Token
    principal: Principal
    # Its own end, or that of a token that it was given for.
    expires_ms: float
    parents: frozenset[str]


class Tokens:
    def __init__(
        self,
        changes: RecordChanges,
        *,
        clock: Clock,
        style: Style,
        random_hex: Callable[[], str] = lambda: secrets.token_hex(20),
    ) -> None:
        self._changes = changes
        self._clock = clock
        self.style: Final = style
        self._random_hex = random_hex
        self.grants: Final = Grants(changes, clock=clock)

    def due_kinds(self) -> Sequence[DueKind]:
        return (DueKind(name=TOKEN, handle=_forget),)

    async def issue(
        self,
        *,
        kind: Kind,
        name: str,
        principal: str,
        grants: Sequence[Grant] = (),
        scopes: Sequence[Scope] = ("call",),
        agents: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        reaches_open: bool = False,
        roles: Sequence[str] = (),
        tenant: str = "",
        expires_in_s: float | None = None,
        created_by: str = "",
        parent: str = "",
        also: Sequence[Change] = (),
    ) -> Issued:
        """A new token of the principal.

        Its principal gets the `grants`, those of its `roles` (an owner calls its own agents, an
        operator all of them) and, with `reaches_open`, every agent that is open. `scopes`, `agents`
        and `methods` limit the token. A principal `token:NAME` has one active token at a time,
        beside those that a rotation replaces. The changes of records in `also` are committed
        together with the token. Raises Conflict and StoreError.
        """
        now_ms = self._clock.now_ms()
        text, token = self._new(
            Token(
                id="",
                kind=kind,
                name=name,
                principal=principal,
                prefix="",
                digest="",
                created_ms=now_ms,
                created_by=created_by,
                tenant=tenant,
                grants=tuple(grants),
                reaches_open=reaches_open,
                roles=tuple(roles),
                scopes=tuple(scopes),
                agents=None if agents is None else tuple(agents),
                methods=None if methods is None else tuple(methods),
                expires_ms=None if expires_in_s is None else now_ms + round(expires_in_s * 1000),
                parent=parent,
            )
        )
        # No node can hold anything about a token that is random and new, so this commit does not
        # go through the changes that all nodes follow.
        try:
            await self._changes.store.change(
                *self._puts(token, expected=0), *await self._named(token), *also
            )
        except RecordConflict:
            raise _is_taken(name) from None
        return _issued(text, token)

    def _new(self, token: Token) -> tuple[str, Token]:
        text = new_text(token.kind, self.style, self._random_hex())
        digest = digest_of(text.encode())
        return text, replace(token, id=id_of(digest), prefix=prefix_of(text), digest=digest)

    def _puts(self, token: Token, *, expected: int) -> Iterable[Change]:
        tags = [f"principal:{token.principal}", f"prefix:{token.prefix}"]
        if token.parent:
            tags.append(f"parent:{token.parent}")
        if token.principal.startswith(_SERVICE_PREFIX):
            tags += [folded(role) for role in token.roles if role.startswith(_OWNER_PREFIX)]
        yield Put(
            key=_key(token.id),
            body=_encode(token),
            due_in_ms=self._forgotten_in_ms(token),
            tags=tuple(tags),
            expected=expected,
        )

    def _forgotten_in_ms(self, token: Token) -> int | None:
        ends = [ms for ms in (token.expires_ms, token.revoked_ms) if ms is not None]
        if not ends:
            return None
        kept_ms = _ACCESS_KEPT_MS if token.kind == "access" else _KEPT_MS
        return max(0, min(ends) - self._clock.now_ms()) + kept_ms

    async def _named(self, token: Token) -> Sequence[Change]:
        """The change that takes the name of a service. Raises Conflict for a name whose token
        is still active: the two would be one principal."""
        if token.kind != "key" or not token.principal.startswith(_SERVICE_PREFIX):
            return ()
        key = Key(SERVICE, "", token.principal.removeprefix(_SERVICE_PREFIX))
        there = await self._changes.store.record(key)
        if there is not None:
            last = await self._read(there.body.decode())
            if last is not None and last[0].is_active(self._clock.now_ms()):
                raise _is_taken(token.name)
        expected = 0 if there is None else there.version
        return (Put(key=key, body=token.id.encode(), expected=expected),)

    async def find(self, token_id: str) -> Listed:
        """Raises RouteNotFound and StoreError."""
        token, _ = await self._one(token_id)
        return await self._listed(token)

    async def list(
        self, *, principal: str = "", after: str = "", limit: int = _PAGE
    ) -> Sequence[Listed]:
        """Tokens behind the id `after`, of one principal or of all."""
        found = await self._changes.store.records(
            TOKEN,
            scope="",
            tag=f"principal:{principal}" if principal else None,
            after=_key(after) if after else None,
            limit=limit,
        )
        return [await self._listed(_decode(record.body)) for record in found]

    async def named(self, name: str) -> Sequence[Listed]:
        """The token with this id, or those with this prefix as lists show it."""
        if ID.fullmatch(name):
            found = await self._read(name)
            return () if found is None else [await self._listed(found[0])]
        records = await self._changes.store.records(
            TOKEN, scope="", tag=f"prefix:{name}", limit=_PAGE
        )
        return [await self._listed(_decode(record.body)) for record in records]

    async def _listed(self, token: Token) -> Listed:
        used = await self._changes.store.record(Key(USED, "", token.id))
        return Listed(token=token, used_ms=None if used is None else int(used.body))

    async def revoke(self, token_id: str, *, also: Sequence[Change] = ()) -> Token:
        """When it returns, every node refuses the token, and those that were given for it. Raises
        RouteNotFound and StoreError."""
        token, record = await self._one(token_id)
        revoked = token
        if token.revoked_ms is None:
            revoked = replace(token, revoked_ms=self._clock.now_ms())
        # Also for one that is revoked already: another caller may still wait for the nodes.
        await self._changes.commit(
            *self._puts(revoked, expected=record.version),
            *also,
            touched=[Touched("token", token_id)],
            restricts=True,
        )
        return revoked

    async def manages_for(self, owner: str) -> bool:
        """Whether there is a service that manages the agents of the owner, in any case. Raises
        StoreError."""
        tag = folded(f"{_OWNER_PREFIX}{owner}")
        return bool(await self._changes.store.records(TOKEN, scope="", tag=tag, limit=1))

    async def revoke_all(self, principal: str, *, but: str = "") -> int:
        """Revoke every active token of a principal, except the one with the id `but`. Returns how
        many it revoked."""
        now_ms = self._clock.now_ms()
        after: Key | None = None
        revoked = 0
        while True:
            found = await self._changes.store.records(
                TOKEN, scope="", tag=f"principal:{principal}", after=after, limit=_PAGE
            )
            tokens = [(_decode(record.body), record.version) for record in found]
            active = [each for each in tokens if each[0].is_active(now_ms) and each[0].id != but]
            changes = [
                change
                for token, version in active
                for change in self._puts(replace(token, revoked_ms=now_ms), expected=version)
            ]
            is_last = len(found) < _PAGE
            if changes or (is_last and revoked):
                await self._changes.commit(
                    *changes,
                    touched=[Touched("token", token.id) for token, _ in active],
                    restricts=is_last,
                )
            revoked += len(active)
            if is_last:
                return revoked
            after = found[-1].key

    async def rotate(
        self,
        token_id: str,
        *,
        overlap_s: float = 0,
        expires_in_s: float | None = None,
        also: Sequence[Change] = (),
    ) -> Issued:
        """A new token in place of one, which ends after `overlap_s`. The new one lives as long as
        the old one was given for, unless `expires_in_s` says otherwise. Raises RouteNotFound,
        InvalidRequest and StoreError."""
        old, record = await self._one(token_id)
        now_ms = self._clock.now_ms()
        if old.replaced_by:
            raise InvalidRequest(f"The token was replaced by {old.replaced_by}; rotate that one")
        if not old.is_active(now_ms):
            raise InvalidRequest("The token has ended; create a new one")
        lasts_ms = None if old.expires_ms is None else old.expires_ms - old.created_ms
        if expires_in_s is not None:
            lasts_ms = round(expires_in_s * 1000)
        text, new = self._new(
            replace(
                old,
                created_ms=now_ms,
                expires_ms=None if lasts_ms is None else now_ms + lasts_ms,
            )
        )
        ends_ms = now_ms + round(overlap_s * 1000)
        if old.expires_ms is not None:
            ends_ms = min(ends_ms, old.expires_ms)
        changes: list[Change] = [
            *self._puts(
                replace(old, expires_ms=ends_ms, replaced_by=new.id), expected=record.version
            ),
            *self._puts(new, expected=0),
            *also,
        ]
        if new.kind == "key" and new.principal.startswith(_SERVICE_PREFIX):
            service = Key(SERVICE, "", new.principal.removeprefix(_SERVICE_PREFIX))
            changes.append(Put(key=service, body=new.id.encode()))
        await self._changes.commit(*changes, touched=[Touched("token", old.id)], restricts=True)
        return _issued(text, new)

    async def read(self, digest: str) -> "Valid":
        """The active token of a digest, as the store has it. Raises Unauthenticated and
        StoreError."""
        found = await self._read(id_of(digest))
        now_ms = self._clock.now_ms()
        if found is None or not has_digest(found[0], digest) or not found[0].is_active(now_ms):
            raise Unauthenticated(REFUSED, has_credential=True)
        token = found[0]
        parents = await self._parents(token)
        if any(not parent.is_active(now_ms) for parent in parents):
            raise Unauthenticated(REFUSED, has_credential=True)
        ends = [each.expires_ms for each in (token, *parents)]
        return Valid(
            token=token,
            principal=await self.principal(token),
            expires_ms=min((end for end in ends if end is not None), default=math.inf),
            parents=frozenset(parent.id for parent in parents),
        )

    async def _parents(self, token: Token) -> Sequence[Token]:
        """The token that this one was given for, the one that that was given for, and so on. Raises
        Unauthenticated where one is missing."""
        parents: list[Token] = []
        while token.parent:
            found = await self._read(token.parent)
            if found is None or len(parents) == _MAX_PARENTS:
                raise Unauthenticated(REFUSED, has_credential=True)
            token = found[0]
            parents.append(token)
        return parents

    async def principal(self, token: Token) -> Principal:
        """The principal of a token, with what others granted to it. Raises StoreError."""
        return principal_of(token, await self.grants.of(token.principal))

    async def has_active_parents(self, token: Token) -> bool:
        """Whether every token that this one was given for is active. Raises StoreError."""
        try:
            parents = await self._parents(token)
        except Unauthenticated:
            return False
        return all(parent.is_active(self._clock.now_ms()) for parent in parents)

    async def note_used(self, used: dict[str, int]) -> None:
        """Record when tokens were last used. Raises StoreError."""
        puts = [Put(key=Key(USED, "", id), body=b"%d" % ms) for id, ms in used.items()]
        for start in range(0, len(puts), _PAGE):
            await self._changes.store.change(*puts[start : start + _PAGE])

    async def _one(self, token_id: str) -> tuple[Token, Record]:
        found = await self._read(token_id)
        if found is None:
            raise RouteNotFound("There is no such token")
        return found

    async def _read(self, token_id: str) -> tuple[Token, Record] | None:
        record = await self._changes.store.record(_key(token_id))
        return None if record is None else (_decode(record.body), record)


def _key(token_id: str) -> Key:
    return Key(TOKEN, "", token_id)


def _issued(text: str, token: Token) -> Issued:
    return Issued(token=text, id=token.id, prefix=token.prefix, expires_ms=token.expires_ms)


def _is_taken(name: str) -> Conflict:
    return Conflict(
        f"There is an active token with the name {name!r}; rotate it, or revoke it first"
    )


async def _forget(record: Record) -> Sequence[Change]:
    """Due work deletes the record itself, because there is no change of it."""
    return (Delete(key=Key(USED, "", record.key.id)),)
