"""`Recordings`: recorded tasks that are published as agents `recording/SLUG`.

A recording is a record of the main store, if the gateway has one open; else it lives as long as the
process. Only callers whose grants cover it reach the agent, because it says what a caller of
another agent was told.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.api.recording_types import RecordingView
from trunkline.console.recordings.recorded_tasks import RecordedTasks, recording_of
from trunkline.model.errors import (
    AgentNotPublished,
    ConfigError,
    Conflict,
    RecordConflict,
    RouteNotFound,
    TrunklineError,
)
from trunkline.model.principal import Principal
from trunkline.model.recordings import Recording
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import SETTLED
from trunkline.ports.clock import Clock
from trunkline.ports.directory import Directory
from trunkline.ports.records import Delete, Key, Put, Record
from trunkline.ports.store import Store

_log = logging.getLogger("trunkline.console")

OWNER: Final = "recording"
KIND: Final = "recording.1"
_SCOPE: Final = ""
MAX_RECORDINGS: Final = 100
_PAGE: Final = 20
# Running turns of a recording that is deleted need not end first.
_GRACE_S: Final = 0.0
_UNSAFE: Final = re.compile(r"[^a-z0-9]+")
# The end of an id is what tells tasks apart: it begins with the time.
_SLUG_CHARS: Final = 12


class StoredRecording(Struct, frozen=True, kw_only=True):
    slug: str
    task_id: str
    # The handle of the agent of the task.
    agent: str
    created_ms: int
    created_by: str
    max_gap_ms: int
    events: int
    recording: Recording


class _Kept(Struct, frozen=True, kw_only=True):
    stored: StoredRecording
    is_durable: bool
    problem: str = ""


class Private:
    """The standing of a recording (`ports.directory.Standing`): in no list, and unknown to callers
    without a grant."""

    is_private = True
    is_open = False
    is_listed = False
    is_fresh = True

    async def renew(self) -> None: ...

    async def card_block(self) -> tuple[str, bytes] | None:
        return None


class Recordings:
    def __init__(
        self,
        tasks: RecordedTasks,
        directory: Directory,
        *,
        main: Callable[[], Awaitable[Store | None]],
        clock: Clock,
    ) -> None:
        """`main` returns the main store; None for a gateway that has none open."""
        self._tasks = tasks
        self._directory = directory
        self._main = main
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def open(self) -> None:
        """Publish the recordings of the store. Raises StoreError."""
        main = await self._main()
        if main is None:
            return
        after: Key | None = None
        while found := await main.records(KIND, after=after, limit=_PAGE):
            for record in found:
                await self._publish_again(record)
            after = found[-1].key

    async def _publish_again(self, record: Record) -> None:
        try:
            stored = _decode(record.body)
        except msgspec.DecodeError as error:
            _log.warning("recording %s cannot be read: %s", record.key.id, error)
            return
        problem = ""
        try:
            await self._publish(stored)
        except TrunklineError as error:
            problem = error.message
            _log.warning("recording %s is not published: %s", stored.slug, problem)
        self._kept[stored.slug] = _Kept(stored=stored, is_durable=True, problem=problem)

    async def create(
        self, task_id: str, *, slug: str, max_gap_ms: int, by: Principal
    ) -> RecordingView:
        """Raises RouteNotFound, Conflict and StoreError."""
        task = await self._tasks.find(task_id, by=by)
        if task.state not in SETTLED:
            raise Conflict("The task is still at work; record it when it has ended or waits")
        slug = slug or _slug_of(task_id)
        if slug in self._kept:
            raise Conflict(f"There is a recording {slug} already; delete it, or choose another one")
        if len(self._kept) >= MAX_RECORDINGS:
            raise Conflict(f"There are {MAX_RECORDINGS} recordings already; delete one of them")
        stored = StoredRecording(
            slug=slug,
            task_id=task_id,
            agent=task.scope.agent,
            created_ms=self._clock.now_ms(),
            created_by=by.id,
            max_gap_ms=max_gap_ms,
            events=len(task.events),
            recording=recording_of(task, max_gap_ms=max_gap_ms),
        )
        try:
            await self._publish(stored)
        except ConfigError as error:
            raise Conflict(f"The recording cannot be published: {error.message}") from None
        try:
            is_durable = await self._keep(stored)
        except BaseException:
            await self._withdraw(slug)
            raise
        self._kept[slug] = _Kept(stored=stored, is_durable=is_durable)
        return self._view(self._kept[slug])

    async def _keep(self, stored: StoredRecording) -> bool:
        """Whether the recording outlives the process. Raises Conflict and StoreError."""
        main = await self._main()
        if main is None:
            return False
        try:
            await main.change(Put(key=_key(stored.slug), body=_encode(stored), expected=0))
        except RecordConflict:
            raise Conflict(f"There is a recording {stored.slug} already") from None
        return True

    async def delete(self, slug: str) -> None:
        """Raises RouteNotFound and StoreError."""
        kept = self._kept.get(slug)
        if kept is None:
            raise RouteNotFound("There is no such recording")
        main = await self._main()
        if kept.is_durable and main is not None:
            await main.change(Delete(key=_key(slug)))
        self._kept.pop(slug, None)
        await self._withdraw(slug)

    def list(self) -> Sequence[RecordingView]:
        """The last one first."""
        kept = sorted(self._kept.values(), key=lambda each: each.stored.created_ms, reverse=True)
        return [self._view(each) for each in kept]

    def _view(self, kept: _Kept) -> RecordingView:
        stored = kept.stored
        handle = f"{OWNER}/{stored.slug}"
        listing = self._directory.find(handle)
        return RecordingView(
            slug=stored.slug,
            handle=handle,
            agent=stored.agent,
            task_id=stored.task_id,
            turns=len(stored.recording.turns),
            events=stored.events,
            max_gap_ms=stored.max_gap_ms,
            created_at=format_timestamp(stored.created_ms),
            created_by=stored.created_by,
            durable=kept.is_durable,
            problem=kept.problem,
            card_path="" if listing is None else listing.card_path,
            jsonrpc_path="" if listing is None else listing.jsonrpc_path,
        )

    async def _publish(self, stored: StoredRecording) -> None:
        """Raises ConfigError and StoreError."""
        table: dict[str, Any] = {
            "name": f"Recording of {stored.agent}",
            "description": f"Plays the task {stored.task_id} of {stored.agent} again, whatever "
            "message it gets.",
            "backend": {
                "kind": "scripted",
                "recording": _encode(stored.recording).decode(),
            },
        }
        await self._directory.publish(f"{OWNER}/{stored.slug}", table, standing=Private())

    async def _withdraw(self, slug: str) -> None:
        # The addresses are gone when this returns; the directory ends the turns beside that.
        with suppress(AgentNotPublished):
            _ = await self._directory.begin_withdrawal(f"{OWNER}/{slug}", grace_s=_GRACE_S)


def _slug_of(task_id: str) -> str:
    found = _UNSAFE.sub("-", task_id.lower())[-_SLUG_CHARS:].strip("-")
    return found or "task"


def _key(slug: str) -> Key:
    return Key(KIND, _SCOPE, slug)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredRecording).decode
