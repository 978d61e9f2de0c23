"""`AuditWriter`: brings the rows of the audit into the chain of this node, a batch at a time.

Attempts were committed with their tasks, and administrative changes with themselves, as records of
an outbox; the writer reads them back from there, so that it chains what is committed and nothing
else, and needs no memory while the store is away. Outcomes and refusals wait in memory for the next
batch, up to `MAX_WAITING`; beyond that they are counted, and the count becomes a row. One change of
the main store writes the rows, moves the head of the chain, deletes the records of the outbox, and
brings the days of the inbound report up to date.

The rows of a batch are in the order in which their messages were admitted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.hub.audit_batch import Batch, Ended, Place
from trunkline.hub.audit_chain import OUTBOX, Head
from trunkline.hub.audit_rows import Row, encode_row
from trunkline.hub.chain_writer import ChainWriter
from trunkline.hub.inbound_days import DAY, Day, day_key, day_number, decode_day, put_day
from trunkline.hub.refusal_counts import RefusalCounts
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Key, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.audit")

# Rows wait for others for that long, unless a batch is full before.
FLUSH_S: Final = 0.25
MAX_BATCH: Final = 256
# Outcomes, refusals and changes in memory while the store takes none; about 20 MB.
MAX_WAITING: Final = 50_000
# An outcome waits for its attempt, which may be committed a moment later, or be in the outbox of
# another store. After that time the attempt was not committed.
HOLD_S: Final = 15.0
RETRY_S: Final = 1.0
_MAX_DAYS: Final = 4096

_decode_row = msgspec.json.Decoder(Row).decode


class AuditWriter:
    def __init__(self, chain: ChainWriter, clock: Clock) -> None:
        self.chain = chain
        self._clock = clock
        self._waiting: deque[Row | Ended] = deque()
        self._held: dict[str, Ended] = {}
        # Rows for which there was no room, and since when.
        self._lost, self._lost_since_ms = 0, 0
        # Rows whose records are in the outbox or on their way, by number; others are decoded.
        # Those of the flush before are kept apart, to forget what was never committed.
        self._put: dict[str, Row] = {}
        self._put_before: dict[str, Row] = {}
        self._counter = 0
        self._counts = RefusalCounts()
        # What this chain has written of the days it changed last.
        self._days: dict[Place, Day] = {}
        self._unsettled: Batch | None = None
        self._lock = asyncio.Lock()
        self._woken = asyncio.Event()
        self._full = asyncio.Event()
        self._since_flush = 0
        self._is_away = False
        self._is_open = False
        self._tasks = BackgroundTasks("audit")

    async def open(self, store: Store) -> None:
        """Raises StoreError."""
        await self.chain.begin(store)
        self._is_open = True
        self._tasks.spawn(self._keep_writing(), name="audit")

    async def close(self) -> None:
        """Write what is left, and end the chain."""
        if not self._is_open:
            return
        self._is_open = False
        await self._tasks.close()
        try:
            for row in self._counts.rest():
                self.add(row)
            await self.flush()
            # Outcomes that waited for their attempts wait no longer.
            await self.flush()
            await self.chain.close()
        except StoreError as error:
            _log.error(
                "the end of the audit is not written; the next start shows it as interrupted",
                extra={"reason": error.message, "rows": len(self._waiting)},
            )

    def put(self, row: Row) -> Put:
        """The record to commit together with what the row is about."""
        self._counter += 1
        number = f"{self._counter:016d}"
        if len(self._put) < MAX_WAITING:
            self._put[number] = row
        self._wake()
        return Put(key=Key(OUTBOX, self.chain.chain, number), body=encode_row(row), expected=0)

    def add(self, row: Row | Ended) -> None:
        """Write the row with the next batch."""
        if len(self._waiting) + len(self._held) >= MAX_WAITING:
            self._lost_since_ms = self._lost_since_ms or self._clock.now_ms()
            self._lost += 1
            return
        self._waiting.append(row)
        self._wake()

    def end(self, outcome: Row, *, admitted_ms: int) -> None:
        """Write the outcome of an attempt, once the attempt is written."""
        now = self._clock.monotonic()
        self.add(Ended(row=outcome, admitted_ms=admitted_ms, ended_at=now))

    def refuse(self, row: Row) -> None:
        """Write a refusal, unless its source has too many of them."""
        for each in self._counts.take(row, self._clock.now_ms()):
            self.add(each)

    def tick(self) -> None:
        """Write the refusals of the last minute that were counted, and look for rows that came into
        the outbox late: those of an agent with a store of its own."""
        self._woken.set()
        for each in self._counts.due(self._clock.now_ms()):
            self.add(each)

    @property
    def waiting(self) -> int:
        """The number of rows in memory."""
        return len(self._waiting) + len(self._held)

    def _wake(self) -> None:
        self._since_flush += 1
        if self._since_flush == 1:
            self._woken.set()
        elif self._since_flush == 2 * MAX_BATCH:
            # Attempts, and as many outcomes.
            self._full.set()

    async def _keep_writing(self) -> None:
        while True:
            await self._woken.wait()
            await self._pause()
            self._woken.clear()
            self._full.clear()
            self._since_flush = 0
            try:
                await self.flush()
                if self._is_away:
                    _log.info("the audit is written again")
                self._is_away = False
            except Exception as error:  # noqa: BLE001 - logged, and tried again
                self._tell_failure(error)
                await self._clock.sleep(RETRY_S)
                self._woken.set()
            if self._held:
                self._woken.set()

    async def _pause(self) -> None:
        """Wait until a batch is full, but not for longer than `FLUSH_S`."""
        sleep = self._tasks.start(self._clock.sleep(FLUSH_S), name="audit: pause")
        full = self._tasks.start(_set(self._full), name="audit: full")
        try:
            await asyncio.wait({sleep, full}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            full.cancel()

    def _tell_failure(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            _log.exception("the audit cannot be written")
        elif not self._is_away:
            # Once, and not every second, for a store that is away for long.
            _log.error("the audit cannot be written now", extra={"reason": error.message})
        self._is_away = True

    async def flush(self) -> None:
        """Write all that is committed and waits. Raises StoreError."""
        async with self._lock:
            await self._settle()
            self._expire()
            while await self._write_batch():
                pass

    async def adopt(self, chain: str, *, is_abandoned: bool) -> int:
        """Take over what the node of a closed chain has left in the outbox. Returns how many rows.
        Raises StoreError."""
        count = 0
        while True:
            async with self._lock:
                await self._settle()
                left = await self.chain.store.records(OUTBOX, scope=chain, limit=MAX_BATCH)
                if not left:
                    return count
                batch = Batch(self._days)
                rows = [self._row(record) for record in left]
                await self._load_days(_places(rows))
                now_ms = self._clock.now_ms()
                for record, row in zip(left, rows, strict=True):
                    batch.take_over(record, row, chain, now_ms, is_abandoned=is_abandoned)
                if await self._commit(batch):
                    count += len(left)

    async def interrupt(self, chain: str) -> None:
        """Write the outcome of each attempt in the chain of a node that is gone. Raises
        StoreError."""
        while True:
            async with self._lock:
                await self._settle()
                found = await self.chain.store.records(DAY, tag=chain, limit=1)
                if not found:
                    return
                ((record,), batch) = found, Batch(self._days)
                day, now_ms = _day_of(record), self._clock.now_ms()
                batch.interrupt(day, record.key.scope, chain, now_ms)
                batch.changes.append(put_day(record.key, day, expected=record.version))
                await self._commit(batch)

    async def prune(self, shorter: Head, *deletes: Change) -> Head:
        """Let the chain begin where `shorter` does. Raises RecordConflict and StoreError."""
        async with self._lock:
            await self._settle()
            head = replace(
                self.chain.head,
                first=shorter.first,
                hash_before_first=shorter.hash_before_first,
            )
            await self.chain.prune(head, *deletes)
            return head

    async def _settle(self) -> None:
        was_made = await self.chain.settle()
        if was_made is None:
            return
        batch, self._unsettled = self._unsettled, None
        self._days.clear()
        if was_made and batch is not None:
            self._done(batch)

    def _expire(self) -> None:
        """Wait no longer for attempts that were not committed."""
        now = self._clock.monotonic()
        for id, ended in [*self._held.items()]:
            if now - ended.ended_at < HOLD_S and self._is_open:
                continue
            del self._held[id]
            row = ended.row
            if row.ran_ms is not None:
                self.add(row)
            else:
                # The message was admitted, and then not accepted.
                reason = row.reason or "not_accepted"
                self.refuse(replace(row, kind="refusal", outcome="", reason=reason))

    async def _write_batch(self) -> bool:
        """Write one batch. Returns whether there may be more."""
        scope = self.chain.chain
        records = await self.chain.store.records(OUTBOX, scope=scope, limit=MAX_BATCH)
        batch = Batch(self._days, is_last=len(records) < MAX_BATCH)
        rows = [self._row(record) for record in records]
        waiting = [self._waiting[index] for index in range(min(MAX_BATCH, len(self._waiting)))]
        await self._load_days({*_places(rows), *_places(waiting), *_places(self._held.values())})
        for record, row in zip(records, rows, strict=True):
            batch.take(record, row)
        batch.waiting = len(waiting)
        # Those that were held came first.
        for ended in self._held.values():
            batch.end(ended)
        for each in waiting:
            if isinstance(each, Ended):
                batch.end(each)
            else:
                batch.add(each)
        if self._lost:
            batch.lost = self._lost
            batch.add(Row(kind="lost", at_ms=self._lost_since_ms, count=self._lost))
        if not batch.bodies:
            self._done(batch)
            return False
        is_written = await self._commit(batch)
        return not is_written or not batch.is_last or len(waiting) == MAX_BATCH

    async def _commit(self, batch: Batch) -> bool:
        chain = self.chain.chain
        days = [
            put_day(day_key(agent, number, chain), day)
            for (agent, number), day in batch.days.items()
        ]
        self._unsettled = batch
        try:
            is_written = await self.chain.append(batch.bodies, *batch.changes, *days)
        except BaseException:
            # The days are read again, because they may be older than these.
            self._days.clear()
            raise
        self._unsettled = None
        if is_written:
            self._done(batch)
        else:
            self._days.clear()
        return is_written

    def _done(self, batch: Batch) -> None:
        """The batch is committed, or had nothing to commit."""
        if batch.is_last:
            self._put_before, self._put = self._put, {}
        for _ in range(batch.waiting):
            self._waiting.popleft()
        self._held = batch.held
        self._lost -= batch.lost
        if not self._lost:
            self._lost_since_ms = 0
        while len(self._days) > _MAX_DAYS:
            del self._days[next(iter(self._days))]

    def _row(self, record: Record) -> Row:
        """The row of a record of the outbox."""
        number = record.key.id
        row = self._put.get(number) or self._put_before.get(number)
        if row is not None and record.key.scope == self.chain.chain:
            return row
        try:
            return _decode_row(record.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            detail = "a record of the outbox was damaged"
            return Row(kind="lost", at_ms=self._clock.now_ms(), detail=detail)

    async def _load_days(self, places: Iterable[Place]) -> None:
        """Read what this chain has written of these days."""
        for agent, number in places:
            if (agent, number) not in self._days:
                key = day_key(agent, number, self.chain.chain)
                self._days[agent, number] = _day_of(await self.chain.store.record(key))


async def _set(event: asyncio.Event) -> None:
    await event.wait()


def _places(rows: Iterable[Row | Ended]) -> set[Place]:
    found: set[Place] = set()
    for each in rows:
        if isinstance(each, Ended):
            found.add((each.row.agent, day_number(each.admitted_ms)))
        elif each.agent:
            found.add((each.agent, day_number(each.at_ms)))
    return found


def _day_of(record: Record | None) -> Day:
    if record is None:
        return Day()
    try:
        return decode_day(record.body)
    except msgspec.DecodeError:
        _log.error("a day of the inbound report is damaged and begins anew")
        return Day()
