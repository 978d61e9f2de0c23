"""`Mailbox`: the letters that wait for one agent.

The store has the letters. Memory has what is needed to find them, in the order of their numbers;
one commit of the store changes both the letter and the head, so that no two nodes and no crash can
bring them apart. After a failure of the store, memory is read anew before it is used.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.model.errors import (
    IdempotencyConflict,
    RecordConflict,
    StoreError,
    TooManyRequests,
    TrunklineError,
    Unavailable,
)
from trunkline.model.values import TaskState
from trunkline.ports.clock import Clock
from trunkline.ports.records import Change, Defer, Delete, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.relay.mailbox.queued_tasks import QueuedTask, put_of
from trunkline.relay.mailbox.records import (
    DEAD,
    ENDED,
    HOLDS,
    LETTER,
    Ended,
    Head,
    Letter,
    Owner,
    decode_ended,
    decode_head,
    decode_letter,
    encode,
    ended,
    ended_key,
    head_key,
    letter_key,
)
from trunkline.relay.mailbox.waiting import EndedNote, Lane, Waiting
from trunkline.relay.policies import AgentPolicy

_log: Final = logging.getLogger("trunkline.relay")

# How long a task that ended at the relay is answered: a canceled one, and a dead letter.
CANCELED_KEPT_MS: Final = 3600 * 1000
DEAD_KEPT_MS: Final = 7 * 24 * 3600 * 1000
# How many of them a mailbox keeps; the oldest one makes room. Dead letters also have no more bytes
# than the letters that wait.
MAX_CANCELED: Final = 100
MAX_DEAD: Final = 1000
# How long a request waits until it is known whether the agent has taken a letter.
SETTLE_S: Final = 10.0
RETRY_AFTER_S: Final = 5
_FULL_RETRY_AFTER_S: Final = 60
# Letters of other nodes may come first again and again.
_ATTEMPTS: Final = 50
_PAGE: Final = 100

T = TypeVar("T")


# The next head, and the other changes of the commit; None to commit nothing.
_Changes: TypeAlias = tuple[Head, Sequence[Change]] | None


class OnChange(Protocol):
    def __call__(self, mailbox: "Mailbox", *, is_own: bool) -> None: ...


class Mailbox:
    def __init__(
        self,
        agent: str,
        *,
        store: Store,
        clock: Clock,
        policy: Callable[[], AgentPolicy],
        tasks: BackgroundTasks,
        on_change: OnChange,
    ) -> None:
        """`on_change` is called after each change, of this node or of another one."""
        self.agent: Final = agent
        self.head = Head()
        # That of the last look.
        self._read_head = self.head
        # By the ids of their tasks, in the order of their numbers.
        self.waiting: dict[str, Waiting] = {}
        self.ended: dict[str, EndedNote] = {}
        # Owners whose letters must stay where they are for now.
        self._held: dict[Owner, int] = {}
        self._store = store
        self._clock = clock
        self._policy = policy
        self._tasks = tasks
        self._on_change = on_change
        self._version = 0
        # Whether memory has what the store has.
        self.is_read = False
        self._lock = asyncio.Lock()
        self._moves: asyncio.Future[None] | None = None

    # Reading.

    async def look(self, *, again: bool = False) -> None:
        """Read the mailbox, if memory does not have it. `again`: another node may have changed it.
        Raises StoreError."""
        if not self.is_read or again:
            async with self._lock:
                if not self.is_read or again:
                    await self._read()

    def note(self, head: Head) -> None:
        """Another node has changed the mailbox, which is read when it is needed."""
        self.head = head

    @property
    def is_watched(self) -> bool:
        """Whether something waits for a change."""
        return self._moves is not None and not self._moves.done()

    async def _read(self) -> None:
        record = await self._store.record(head_key(self.agent))
        version = 0 if record is None else record.version
        if self.is_read and version == self._version:
            return
        head = Head() if record is None else decode_head(record.body)
        if not self.is_read or not await self._read_new(head):
            await self._read_all()
        self.head = self._read_head = head
        self._version = version
        self.is_read = True
        self._moved(is_own=False)

    async def _read_new(self, head: Head) -> bool:
        """Read the letters that have come since the last look, if that is all that has changed."""
        if head.ended != self._read_head.ended:
            return False
        found = [each async for each in self._letters(after=self._read_head.next - 1)]
        if len(self.waiting) + len(found) != head.count:
            return False
        self.waiting |= {each.task_id: each for each in found}
        return True

    async def _read_all(self) -> None:
        known = {each.number: each for each in self.waiting.values()}
        found: dict[str, Waiting] = {}
        async for new in self._letters():
            each = known.get(new.number, new)
            each.version = new.version
            if each.attempts != new.attempts:
                # Another node has sent it.
                each.attempts, each.is_unsure = new.attempts, new.is_unsure
            found[each.task_id] = each
        self.ended = {each.key.id: note async for each, note in self._notes()}
        self.waiting = found

    async def _letters(self, *, after: int = 0) -> AsyncIterator[Waiting]:
        async for record in self._records(LETTER, after=letter_key(self.agent, after)):
            try:
                letter = decode_letter(record.body)
            except msgspec.DecodeError as error:
                self._log_unreadable(record, error)
            else:
                yield Waiting.of(record, letter)

    async def _records(self, kind: str, *, after: Key | None = None) -> AsyncIterator[Record]:
        while page := await self._store.records(kind, scope=self.agent, after=after, limit=_PAGE):
            for record in page:
                yield record
            after = page[-1].key

    async def _notes(self) -> AsyncIterator[tuple[Record, EndedNote]]:
        async for record in self._records(ENDED):
            try:
                end = decode_ended(record.body)
            except msgspec.DecodeError as error:
                self._log_unreadable(record, error)
            else:
                yield record, EndedNote.of(end, len(record.body))

    def _log_unreadable(self, record: Record, error: Exception) -> None:
        _log.error(
            "a record of the mailbox cannot be read",
            extra={"agent": self.agent, "record": record.key.id, "reason": str(error)},
        )

    async def letter(self, waiting: Waiting) -> Letter | None:
        """None for a letter that is gone. Raises StoreError."""
        record = await self._store.record(letter_key(self.agent, waiting.number))
        return None if record is None else decode_letter(record.body)

    async def end(self, task_id: str) -> Ended | None:
        """What ended here. Raises StoreError."""
        record = await self._store.record(ended_key(self.agent, task_id))
        return None if record is None else decode_ended(record.body)

    def find(self, owner: Owner, task_id: str) -> Waiting | None:
        found = self.waiting.get(task_id)
        return found if found is not None and found.owner == owner else None

    def has_ended(self, owner: Owner, task_id: str) -> bool:
        note = self.ended.get(task_id)
        return note is not None and note.owner == owner

    def of(self, owner: Owner) -> list[Waiting]:
        return [each for each in self.waiting.values() if each.owner == owner]

    def repeated(self, owner: Owner, *, key: str, message_id: str, digest: str) -> Waiting | None:
        """The letter of an earlier request that this one repeats. Raises IdempotencyConflict."""
        for each in self.waiting.values():
            if each.owner != owner:
                continue
            if key and each.idempotency_key == key:
                if each.digest != digest:
                    raise IdempotencyConflict(
                        "The idempotency key was used before for another request; use a new key"
                    )
                return each
            # Without a key of its own a request is a repeat only if it is the same in all.
            if each.message_id == message_id and each.digest == digest:
                return each
        return None

    def repeated_by(self, letter: Letter) -> Waiting | None:
        """The same for the letter of this one. Raises IdempotencyConflict."""
        return self.repeated(
            letter.owner,
            key=letter.idempotency_key,
            message_id=letter.message_id,
            digest=letter.digest,
        )

    def heads_of_lanes(self) -> Iterator[Waiting]:
        """The first letter of each lane, the oldest first."""
        seen: set[Lane] = set()
        for each in self.waiting.values():
            if each.lane not in seen:
                seen.add(each.lane)
                yield each

    def is_held(self, waiting: Waiting) -> bool:
        return waiting.owner in self._held

    # Waiting for what happens.

    async def moved(self) -> None:
        """Wait until a letter has come, gone or been sent."""
        if self._moves is None or self._moves.done():
            self._moves = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._moves)

    def _moved(self, *, is_own: bool = True) -> None:
        if self._moves is not None and not self._moves.done():
            self._moves.set_result(None)
        self._on_change(self, is_own=is_own)

    async def until(self, is_so: Callable[[], bool], within_s: float = SETTLE_S) -> None:
        """Wait until the mailbox is so. Raises Unavailable."""
        if is_so():
            return
        waiter = self._tasks.start(self._until(is_so), name="wait for a mailbox")
        alarm = self._tasks.start(self._clock.sleep(within_s), name="wait for a mailbox: alarm")
        try:
            await asyncio.wait({waiter, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            alarm.cancel()
        if not is_so():
            raise unsure()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self.moved()

    @asynccontextmanager
    async def hold(self, owner: Owner) -> AsyncIterator[None]:
        """Keep the letters of an owner where they are, once it is known where each of them is.
        Raises Unavailable."""
        await self.until(lambda: not any(each.is_unsure for each in self.of(owner)))
        self._held[owner] = self._held.get(owner, 0) + 1
        try:
            yield
        finally:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]
                self._moved()

    # Changes.

    async def _finished(self, work: Coroutine[Any, Any, T], *, name: str) -> T:
        """Make a change in a task, so that a client that leaves does not stop it half-way. Its
        error is the caller's, and none of the task."""

        async def outcome() -> T | TrunklineError:
            try:
                return await work
            except TrunklineError as error:
                return error

        made = await asyncio.shield(self._tasks.start(outcome(), name=name))
        if isinstance(made, TrunklineError):
            raise made
        return made

    async def put(self, letter: Letter) -> Waiting:
        """A letter that waits from now on, or the one that it repeats. Raises TooManyRequests,
        IdempotencyConflict and StoreError."""
        return await self._finished(self._put(letter), name="put a letter")

    async def _put(self, letter: Letter) -> Waiting:
        def change(head: Head) -> _Changes:
            return None if self.repeated_by(letter) is not None else self._with(head, letter)

        async with self._lock:
            if not await self._commit(change):
                repeated = self.repeated_by(letter)
                assert repeated is not None
                return repeated
            waiting = self._add(letter)
        self._moved()
        return waiting

    def _with(self, head: Head, letter: Letter) -> tuple[Head, list[Change]]:
        """Raises TooManyRequests."""
        self._check_room(head, letter)
        left_ms = max(0, letter.ends_ms - self._clock.now_ms())
        key = letter_key(self.agent, head.next)
        put = Put(key=key, body=encode(letter), due_in_ms=left_ms, expected=0)
        more = replace(
            head,
            next=head.next + 1,
            count=head.count + 1,
            bytes=head.bytes + letter.size,
            oldest_ms=head.oldest_ms or letter.created_ms,
        )
        queued = QueuedTask(agent=self.agent, owner=letter.principal)
        return more, [put, put_of(letter.task_id, queued, ends_in_ms=left_ms)]

    def _add(self, letter: Letter) -> Waiting:
        """Memory follows the commit of a letter, which was the last one."""
        key = letter_key(self.agent, self.head.next - 1)
        waiting = Waiting.of(Record(key=key, version=1, body=b""), letter)
        self.waiting[letter.task_id] = waiting
        return waiting

    def _check_room(self, head: Head, letter: Letter) -> None:
        policy, size = self._policy(), letter.size
        own = [each for each in self.waiting.values() if each.owner.principal == letter.principal]
        own_bytes = sum(each.size for each in own)
        if head.count >= policy.mailbox_messages:
            full = f"{head.count:,} messages wait, the maximum (mailbox_messages)"
        elif head.bytes + size > policy.mailbox_bytes:
            full = (
                f"the messages that wait have {head.bytes:,} bytes, and this one needs {size:,} of "
                f"the maximum of {policy.mailbox_bytes:,} (mailbox_bytes)"
            )
        elif own and (
            len(own) >= policy.mailbox_messages // 2 or own_bytes + size > policy.mailbox_bytes // 2
        ):
            # The rest is for other callers: one alone must not fill the mailbox.
            full = (
                f"{len(own):,} messages of yours wait, with {own_bytes:,} bytes, and one caller "
                "may have half of mailbox_messages and of mailbox_bytes"
            )
        else:
            return
        raise TooManyRequests(
            f"The agent is away and its mailbox is full: {full}; try again later",
            retry_after_s=_FULL_RETRY_AFTER_S,
        )

    async def cancel(self, waiting: Waiting) -> Ended | None:
        """The canceled task; None if the agent has the letter, or may have it. Raises
        StoreError."""
        letter = await self.letter(waiting)
        if letter is None or letter.lost:
            return None
        end = ended(
            letter,
            TaskState.CANCELED,
            "Canceled before the agent got the message.",
            now_ms=self._clock.now_ms(),
            is_unsure=False,
        )
        return end if await self._ended_as(waiting, end, only_if_unsent=True) else None

    async def bury(self, waiting: Waiting, reason: str) -> None:
        """The letter will never be delivered, for this reason. Raises StoreError."""
        letter = await self.letter(waiting)
        if letter is not None:
            await self._ended_as(waiting, self._dead(letter, reason))

    def _dead(self, letter: Letter, reason: str, *, is_unsure: bool = False) -> Ended:
        return ended(
            letter,
            TaskState.FAILED,
            f"The agent did not get the message: {reason}.",
            now_ms=self._clock.now_ms(),
            reason=reason,
            is_unsure=is_unsure,
        )

    async def taken(self, waiting: Waiting) -> None:
        """The agent has the task. Raises StoreError."""
        await self._finished(self._remove(waiting, None), name="remove a letter")

    async def _ended_as(
        self, waiting: Waiting, end: Ended, *, only_if_unsent: bool = False
    ) -> bool:
        removing = self._remove(waiting, end, only_if_unsent=only_if_unsent)
        return await self._finished(removing, name="end a letter")

    async def _remove(
        self, waiting: Waiting, end: Ended | None, *, only_if_unsent: bool = False
    ) -> bool:
        """Whether the letter was still there."""
        task_id = waiting.task_id

        def change(head: Head) -> _Changes:
            if task_id not in self.waiting or (only_if_unsent and waiting.is_unsure):
                return None
            key = letter_key(self.agent, waiting.number)
            delete = Delete(key=key, expected=waiting.version)
            less = self._without(head, waiting)
            if end is None:
                return less, (delete,)
            less, changes = self._with_end(less, task_id, end)
            return less, (delete, *changes)

        async with self._lock:
            if not await self._commit(change):
                return False
            self._forget(waiting, end)
        self._moved()
        return True

    def _without(self, head: Head, waiting: Waiting) -> Head:
        others = (each for each in self.waiting.values() if each is not waiting)
        oldest = next(others, None)
        return replace(
            head,
            count=max(0, head.count - 1),
            bytes=max(0, head.bytes - waiting.size),
            oldest_ms=0 if oldest is None else oldest.created_ms,
        )

    def _with_end(self, head: Head, task_id: str, end: Ended) -> tuple[Head, list[Change]]:
        """Keep the end of a task, and forget the oldest ones if there are too many."""
        body = encode(end)
        kept_ms = DEAD_KEPT_MS if end.reason else CANCELED_KEPT_MS
        tags = (DEAD,) if end.reason else ()
        put = Put(key=ended_key(self.agent, task_id), body=body, due_in_ms=kept_ms, tags=tags)
        note = EndedNote.of(end, len(body))
        old = self._too_many(note)
        dead = sum(self.ended[each].is_dead for each in old)
        more = replace(head, ended=head.ended + 1 - len(old), dead=head.dead + note.is_dead - dead)
        return more, [put, *(Delete(key=ended_key(self.agent, each)) for each in old)]

    def _too_many(self, new: EndedNote) -> list[str]:
        """The oldest of the kind that have to go for a new one."""
        alike = [(id, note) for id, note in self.ended.items() if note.is_dead == new.is_dead]
        alike.sort(key=lambda each: each[1].ended_ms)
        most = MAX_DEAD if new.is_dead else MAX_CANCELED
        size = new.size + sum(note.size for _, note in alike)
        gone: list[str] = []
        for id, note in alike:
            if len(alike) - len(gone) < most and size <= self._policy().mailbox_bytes:
                break
            gone.append(id)
            size -= note.size
        return gone

    def _forget(self, waiting: Waiting, end: Ended | None) -> None:
        """Memory follows the commit that has removed a letter."""
        self.waiting.pop(waiting.task_id, None)
        if end is not None:
            note = EndedNote.of(end, len(encode(end)))
            for id in self._too_many(note):
                del self.ended[id]
            self.ended[waiting.task_id] = note

    async def _commit(self, change: Callable[[Head], _Changes]) -> bool:
        """Whether something was committed. The lock is held. Raises what `change` raises, and
        StoreError."""
        if not self.is_read:
            await self._read()
        for _ in range(_ATTEMPTS):
            changes = change(self.head)
            if changes is None:
                return False
            head, others = changes
            put = Put(
                key=head_key(self.agent),
                body=encode(head),
                tags=(HOLDS,) if head.holds else (),
                expected=self._version,
            )
            try:
                await self._store.change(put, *others)
            except RecordConflict:
                self.is_read = False
                await self._read()
            except StoreError:
                # The commit may have been made, and its answer lost.
                self.is_read = False
                raise
            else:
                self.head = self._read_head = head
                self._version += 1
                return True
        raise Unavailable("The mailbox changes too fast; try again", retry_after_s=1)

    async def discard(self, task_id: str) -> bool:
        """Forget a dead letter. Whether there was one. Raises StoreError."""
        return await asyncio.shield(
            self._tasks.start(self._take_out(task_id, None), name="discard a letter")
        )

    async def retry(self, task_id: str, letter: Letter) -> bool:
        """Put a letter in place of a dead one. Whether there was one. Raises TooManyRequests and
        StoreError."""
        return await asyncio.shield(
            self._tasks.start(self._take_out(task_id, letter), name="retry a letter")
        )

    async def _take_out(self, task_id: str, letter: Letter | None) -> bool:
        def change(head: Head) -> _Changes:
            note = self.ended.get(task_id)
            if note is None or not note.is_dead:
                return None
            changes: list[Change] = [Delete(key=ended_key(self.agent, task_id))]
            if letter is not None:
                head, puts = self._with(head, letter)
                changes += puts
            return replace(head, ended=head.ended - 1, dead=head.dead - 1), changes

        async with self._lock:
            if not await self._commit(change):
                return False
            self.ended.pop(task_id, None)
            if letter is not None:
                self._add(letter)
        self._moved()
        return True

    # Delivery.

    async def begin(self, waiting: Waiting) -> Letter | None:
        """The letter, which is about to be sent; None if it is gone, or may not go now. Raises
        StoreError."""
        record = await self._store.record(letter_key(self.agent, waiting.number))
        if record is None:
            await self.look(again=True)
            return None
        letter = decode_letter(record.body)
        if self._is_over(waiting) or not self._may_go(waiting):
            return None
        lost = letter.lost + 1 if waiting.is_unsure else 1
        letter = replace(letter, attempts=letter.attempts + 1, lost=lost)
        waiting.is_sent = waiting.is_unsure = True
        waiting.attempts = letter.attempts
        try:
            await self._rewrite(waiting, letter, record.version)
        except StoreError as error:
            waiting.is_sent, waiting.is_unsure = False, lost > 1
            if not isinstance(error, RecordConflict):
                raise
            await self.look(again=True)
            return None
        return letter

    def _may_go(self, waiting: Waiting) -> bool:
        return (
            self.waiting.get(waiting.task_id) is waiting
            and not waiting.is_sent
            and not self.is_held(waiting)
        )

    def _is_over(self, waiting: Waiting) -> bool:
        # One that the agent may have is sent again: only the answer tells whether it has it.
        return waiting.ends_ms <= self._clock.now_ms() and not waiting.is_unsure

    async def _rewrite(self, waiting: Waiting, letter: Letter, version: int) -> None:
        left_ms = max(0, letter.ends_ms - self._clock.now_ms())
        key = letter_key(self.agent, waiting.number)
        await self._store.change(
            Put(key=key, body=encode(letter), due_in_ms=left_ms, expected=version)
        )
        waiting.version = version + 1

    def lost(self, waiting: Waiting) -> None:
        """It is unknown whether the agent has taken the letter."""
        waiting.is_sent = False
        self._moved()

    async def postponed(self, waiting: Waiting, letter: Letter) -> None:
        """The agent has not taken the letter."""
        waiting.is_sent = waiting.is_unsure = False
        self._moved()
        try:
            await self._rewrite(waiting, replace(letter, lost=0), waiting.version)
        except StoreError:
            # After a restart it counts as one that the agent may have, which does no harm.
            return

    # Due work.

    async def expire(self, record: Record) -> Sequence[Change]:
        """What becomes of a letter whose time is over."""
        letter = decode_letter(record.body)
        await self.look(again=True)
        waiting = self.waiting.get(letter.task_id)
        if waiting is not None and waiting.is_sent:
            return (Defer(key=record.key, in_ms=round(SETTLE_S * 1000), expected=record.version),)
        if waiting is None:
            waiting = Waiting.of(record, letter)
        reason = "it was not picked up in time"
        end = self._dead(letter, reason, is_unsure=letter.lost > 0)
        head, changes = self._with_end(self._without(self.head, waiting), letter.task_id, end)
        return (self._head_put(head), *changes)

    async def forget_end(self, record: Record) -> Sequence[Change]:
        """The time is over for which a task is answered that ended here."""
        await self.look(again=True)
        is_dead = DEAD in record.tags
        head = replace(
            self.head,
            ended=max(0, self.head.ended - 1),
            dead=max(0, self.head.dead - is_dead),
        )
        return (self._head_put(head),)

    def _head_put(self, head: Head) -> Put:
        return Put(
            key=head_key(self.agent),
            body=encode(head),
            tags=(HOLDS,) if head.holds else (),
            expected=self._version,
        )


def unsure() -> Unavailable:
    return Unavailable(
        "The agent may be about to take the task, and is not known to have it yet; try again later",
        retry_after_s=RETRY_AFTER_S,
    )
