"""`Grants`: agents that were granted to people and services, beside what a credential allows.

A grant is a record `grant.1`; its scope is the principal, and its id the handle of the agent. It
counts from the next request on, at every node.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from trunkline.model.principal import Grant
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Delete, Key, Put
from trunkline.runtime.record_changes import RecordChanges, Touched

GRANT: Final = "grant.1"
# More than this many agents for one principal are what a grant to `owner/*` is for.
_MAX: Final = 1000
_PAGE: Final = 100

# Told whose grants have changed; None means any.
OnChange: TypeAlias = Callable[[Sequence[str] | None], None]


class Given(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of the record."""

    # The operations of A2A; None means all of them.
    methods: tuple[str, ...] | None = None
    granted_ms: int
    granted_by: str


class Granted(Struct, frozen=True, kw_only=True):
    principal: str
    agent: str
    given: Given


_decode: Final = msgspec.json.Decoder(Given).decode


class Grants:
    def __init__(self, changes: RecordChanges, *, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock
        self._on_change: list[OnChange] = []
        changes.follow("grant", self._follow)

    def on_change(self, call: OnChange) -> None:
        self._on_change.append(call)

    async def _follow(self, principals: Sequence[str] | None) -> None:
        for call in self._on_change:
            call(principals)

    async def of(self, principal: str) -> Sequence[Grant]:
        """What others granted to a principal, as the store has it. Raises StoreError."""
        found = await self._changes.store.records(GRANT, scope=principal, limit=_MAX)
        return [_grant(record.key.id, _decode(record.body)) for record in found]

    async def to(self, agent: str, *, after: str = "", limit: int) -> Sequence[Granted]:
        """Who may call an agent by a grant, behind the principal `after`. Raises StoreError."""
        found = await self._changes.store.records(
            GRANT,
            tag=f"agent:{agent}",
            after=Key(GRANT, after, agent) if after else None,
            limit=limit,
        )
        return [
            Granted(principal=each.key.scope, agent=each.key.id, given=_decode(each.body))
            for each in found
        ]

    async def give(
        self,
        agent: str,
        principal: str,
        *,
        methods: Sequence[str] | None,
        by: str,
        also: Sequence[Change] = (),
    ) -> Granted:
        """Raises StoreError."""
        given = Given(
            methods=None if methods is None else tuple(methods),
            granted_ms=self._clock.now_ms(),
            granted_by=by,
        )
        key = Key(GRANT, principal, agent)
        before = await self._changes.store.record(key)
        await self._changes.commit(
            Put(key=key, body=msgspec.json.encode(given), tags=(f"agent:{agent}",)),
            *also,
            touched=[Touched("grant", principal)],
            # The new one may allow less than the one before.
            restricts=before is not None,
        )
        return Granted(principal=principal, agent=agent, given=given)

    async def take_all(self, principal: str) -> None:
        """Take all grants of a principal. Raises StoreError."""
        while found := await self._changes.store.records(GRANT, scope=principal, limit=_PAGE):
            await self._changes.commit(
                *[Delete(key=record.key) for record in found],
                touched=[Touched("grant", principal)],
                restricts=True,
            )

    async def take(self, agent: str, principal: str, *, also: Sequence[Change] = ()) -> None:
        """When it returns, no node lets the principal in by it. Raises StoreError."""
        await self._changes.commit(
            Delete(key=Key(GRANT, principal, agent)),
            *also,
            touched=[Touched("grant", principal)],
            restricts=True,
        )


def _grant(agent: str, given: Given) -> Grant:
    return Grant(agent, None if given.methods is None else frozenset(given.methods))
