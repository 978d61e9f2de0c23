"""`Registry`: the agents of the hub, kept current in the memory of this node and published.

The rows are records. Every change of one goes through `RecordChanges`, so that all nodes follow it.
What a request depends on, such as the status and the visibility, holds as soon as the row in memory
says so; the directory then publishes, replaces or withdraws the agent beside other work.
"""

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.background import BackgroundTasks, next_pass
from trunkline.hub.agent_tables import published_table
from trunkline.hub.agents import KIND, AgentRow, is_same_agent, put, record_key, restricts, row_of
from trunkline.hub.standing import AgentStanding, CardBlock
from trunkline.model.errors import TrunklineError, Unavailable
from trunkline.model.handles import folded
from trunkline.ports.clock import Clock
from trunkline.ports.directory import Directory, Listing
from trunkline.ports.records import Key, Record
from trunkline.runtime.record_changes import RecordChanges, Touched

_log = logging.getLogger("trunkline.hub")

TOUCHED: Final = "agent"
# Between two attempts to publish an agent that could not be published.
RETRY_S: Final = 30.0
_PAGE: Final = 500
_SCANNED_AT_ONCE: Final = 500


class Connection(Struct, frozen=True, kw_only=True):
    """The parts of the gateway that the registry publishes with."""

    directory: Directory
    # The handle of an agent of the configuration that is the same as this one but for case; empty
    # for a handle that is free.
    configured: Callable[[str], str]
    # All agents of the configuration.
    configured_handles: Callable[[], Sequence[str]]
    # For how long turns of an agent that is withdrawn may go on.
    grace_s: Callable[[], float]


class _Failure(Struct, frozen=True):
    """A row that could not be published, and why."""

    row: AgentRow
    why: str
    # Whether it is time to try again.
    is_due: bool = False


class Registry:
    def __init__(self, changes: RecordChanges, *, clock: Clock, card_block: CardBlock) -> None:
        self.changes = changes
        self._clock = clock
        self._card_block = card_block
        self._connection: Connection | None = None
        # The agent of the configuration that has this handle, but for case; or empty.
        self.configured: Callable[[str], str] = lambda _: ""
        self._is_publishing = False
        # By the keys of the rows: the handles without regard to case.
        self._rows: dict[str, AgentRow] = {}
        self._order: list[str] = []
        self._keys_by_id: dict[str, str] = {}
        # The rows as they were when the directory published them.
        self._shown: dict[str, AgentRow] = {}
        self._failed: dict[str, _Failure] = {}
        # Agents whose publishing is brought in line with their rows at the moment.
        self._aligning: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks("registry")
        changes.follow(TOUCHED, self._follow)

    def connect(self, connection: Connection) -> None:
        self._connection = connection
        self.configured = connection.configured

    async def open(self) -> None:
        """Publish all agents. `RecordChanges` is open. An agent that cannot be published has a
        problem and stops no other."""
        async with self._connected.directory.publishing_many():
            for key in [*self._rows]:
                await self._align(key)
                # Nodes that share the store wait for each other's signs of life.
                await next_pass()
        self._is_publishing = True
        # Changes that came meanwhile.
        for key in {*self._rows, *self._shown}:
            self._set(key, self._rows.get(key))
        published = len(self._shown)
        if published or self._failed:
            _log.info(
                "the registry is open",
                extra={"published": published, "with_problems": len(self._failed)},
            )
        self._tasks.spawn(self._retry_again_and_again(), name="retry agents")

    async def close(self) -> None:
        self._is_publishing = False
        await self._tasks.close()

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None, "the registry is not connected"
        return self._connection

    async def current(self) -> None:
        """Bring memory up to date, unless it is known to be. Raises StoreError."""
        if not self.changes.is_fresh:
            await self.changes.look()

    def rows(self, *, after: str = "") -> list[AgentRow]:
        """The rows behind this key, in the order of their keys."""
        first = bisect_right(self._order, after) if after else 0
        return [self._rows[key] for key in self._order[first:]]

    async def first(
        self, count: int, is_wanted: Callable[[AgentRow], bool], *, after: str = ""
    ) -> list[AgentRow]:
        """The first `count` wanted rows behind this key. Others go on while it looks."""
        found: list[AgentRow] = []
        for number, row in enumerate(self.rows(after=after), 1):
            if is_wanted(row):
                found.append(row)
                if len(found) == count:
                    break
            if number % _SCANNED_AT_ONCE == 0:
                await next_pass()
        return found

    def at(self, handle: str) -> AgentRow | None:
        return self._rows.get(folded(handle))

    def find(self, agent_id: str) -> AgentRow | None:
        return self._rows.get(self._keys_by_id.get(agent_id, ""))

    def owner_like(self, owner: str) -> str:
        """The owner of agents of the registry who has this name, but for case; or empty."""
        prefix = f"{owner.lower()}/"
        at = bisect_left(self._order, prefix)
        if at == len(self._order) or not self._order[at].startswith(prefix):
            return ""
        return self._rows[self._order[at]].owner

    def listed(self) -> list[Listing]:
        """The agents of the configuration that are published."""
        if self._connection is None:
            return []
        find = self._connection.directory.find
        found = (find(handle) for handle in self._connection.configured_handles())
        return [listing for listing in found if listing is not None]

    def problem(self, row: AgentRow) -> str:
        """Why the agent is not published although its row says so; or empty."""
        failed = self._failed.get(row.key)
        if failed is None or not row.is_published or not is_same_agent(row, failed.row):
            return ""
        return failed.why

    async def write(self, row: AgentRow, *, before: AgentRow | None) -> AgentRow:
        """Store a row in place of `before`, and publish or withdraw its agent. When this returns,
        the change holds for the next request here; one that takes something away from callers holds
        at every node.

        Raises RecordConflict if the row in the store is another one, and StoreError.
        """
        await self.changes.commit(
            put(row, expected=0 if before is None else before.version),
            touched=(Touched(TOUCHED, row.key),),
            restricts=restricts(before, row),
        )
        while (aligning := self._aligning.get(row.key)) is not None:
            await asyncio.wait({aligning})
        now = self._rows.get(row.key)
        is_behind = now is None or (before is not None and now.version <= before.version)
        # Memory is behind where the store answered the commit and nothing after it.
        return row if now is None or is_behind else now

    async def _follow(self, keys: Sequence[str] | None) -> None:
        if keys is None:
            found = await self._read_all()
            for key in {*self._rows, *found}:
                self._set(key, found.get(key))
            return
        for key in keys:
            record = await self.changes.store.record(record_key(key))
            self._set(key, None if record is None else _read(record))

    async def _read_all(self) -> Mapping[str, AgentRow]:
        found: dict[str, AgentRow] = {}
        after: Key | None = None
        while True:
            records = await self.changes.store.records(KIND, after=after, limit=_PAGE)
            for record in records:
                if (row := _read(record)) is not None:
                    found[row.key] = row
            if len(records) < _PAGE:
                return found
            after = records[-1].key
            await next_pass()

    def _set(self, key: str, row: AgentRow | None) -> None:
        before = self._rows.pop(key, None)
        if before is not None:
            self._keys_by_id.pop(before.id, None)
        if row is None and before is not None:
            del self._order[bisect_left(self._order, key)]
        if row is not None:
            if before is None:
                insort(self._order, key)
            self._rows[key] = row
            self._keys_by_id[row.id] = key
        if self._is_publishing and key not in self._aligning and not self._is_aligned(key):
            self._aligning[key] = self._tasks.start(self._align(key), name=f"align {key}")

    def _is_aligned(self, key: str) -> bool:
        row, shown = self._rows.get(key), self._shown.get(key)
        if row is None or not row.is_published:
            return shown is None
        if shown is not None and is_same_agent(row, shown):
            return True
        failed = self._failed.get(key)
        return failed is not None and not failed.is_due and is_same_agent(row, failed.row)

    async def _align(self, key: str) -> None:
        """Publish, replace or withdraw the agent until it is as its row says."""
        try:
            while not self._is_aligned(key):
                row = self._rows.get(key)
                if row is None or not row.is_published:
                    await self._withdraw(key)
                else:
                    await self._publish(key, row)
        finally:
            # In the same step as the last look, so that no change comes in between.
            self._aligning.pop(key, None)
        shown, row = self._shown.get(key), self._rows.get(key)
        if row is None or not row.is_published or (shown and is_same_agent(row, shown)):
            self._failed.pop(key, None)

    async def _publish(self, key: str, row: AgentRow) -> None:
        shown = self._shown.get(key)
        if shown is not None and shown.handle != row.handle:
            await self._withdraw(key)
            shown = None
        try:
            if taken := self.configured(row.handle):
                why = f"the configuration has an agent {taken}; it is served in place of this one"
            else:
                await self._connected.directory.publish(
                    row.handle,
                    published_table(row),
                    replace=shown is not None,
                    standing=AgentStanding(self, key, self._card_block),
                )
                self._shown[key] = row
                return
        except Unavailable as error:
            # The gateway is shutting down.
            why = error.message
        except TrunklineError as error:
            why = error.message
        except Exception as error:  # noqa: BLE001 - logged; other agents go on
            _log.exception("an agent of the registry cannot be published")
            why = f"the gateway failed to publish it ({type(error).__name__}); its log says why"
        known = self._failed.get(key)
        self._failed[key] = _Failure(row, why)
        if known is not None and known.why == why:
            return
        _log.error(
            "an agent of the registry is not published as it should be",
            extra={"agent": row.handle, "reason": why},
        )

    async def _withdraw(self, key: str) -> None:
        shown = self._shown.pop(key, None)
        if shown is None:
            return
        connection = self._connected
        try:
            _ = await connection.directory.begin_withdrawal(
                shown.handle, grace_s=connection.grace_s()
            )
        except TrunklineError as error:
            _log.error(
                "an agent of the registry is not withdrawn",
                extra={"agent": shown.handle, "reason": error.message},
            )

    async def _retry_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(RETRY_S)
            for key, failed in [*self._failed.items()]:
                if key not in self._aligning:
                    self._failed[key] = replace(failed, is_due=True)
                    self._set(key, self._rows.get(key))


def _read(record: Record) -> AgentRow | None:
    """The row of a record, or None for one that this release cannot read: it hides its agent, and
    no other one."""
    try:
        return row_of(record)
    except msgspec.DecodeError as error:
        _log.error(
            "an agent of the registry cannot be read",
            extra={"agent": f"{record.key.scope}/{record.key.id}", "reason": str(error)},
        )
        return None
