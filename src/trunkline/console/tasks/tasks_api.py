"""`TasksApi`: the routes of tasks below `/api/v1/tasks`: lists, journals, timelines and exports.

Everyone sees their own tasks and operators see all. A task of someone else is answered like one
that does not exist. Long journals are read in pages, and other requests are served in between.
"""

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from trunkline.api.api import Call, Route
from trunkline.background import next_pass
from trunkline.console.tasks.large_texts import previewed
from trunkline.console.tasks.task_pages import merged_page
from trunkline.console.tasks.task_views import (
    event_view,
    text_of_first,
    text_of_status,
    text_of_task,
    timeline_of,
    view_of,
)
from trunkline.engine.event_rows import EventRow, row_of
from trunkline.engine.task_timeline import TimelineFold
from trunkline.model.errors import InvalidParams, RouteNotFound, StoreUnusable, TaskNotFound
from trunkline.model.events import Entry
from trunkline.model.large_values import MARK
from trunkline.model.principal import OPERATOR, Principal
from trunkline.model.timestamps import format_timestamp, parse_timestamp
from trunkline.model.values import Task, TaskState
from trunkline.ports.call_views import CallView, ListsCalls
from trunkline.ports.clock import Clock
from trunkline.ports.store import OperatorQuery, Scope, Snapshot, StoredTask
from trunkline.ports.task_places import TaskPlace, TaskPlaces
from trunkline.ports.task_views import (
    EventQuery,
    TaskDetails,
    TaskEvent,
    TaskEvents,
    TaskExport,
    TaskList,
    TaskListQuery,
    TaskView,
    Timeline,
)
from trunkline.runtime.large_values import LargeValues

# Entries that are read and turned into JSON before others have their turn.
_STEP: Final = 200
# A step ends earlier where its entries are large.
_STEP_BYTES: Final = 512 * 1024
# So many timelines stay in memory, to be continued when their tasks go on.
_MAX_FOLDS: Final = 32
_NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_JSON: Final = "application/json"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")

_encode = msgspec.json.Encoder().encode


class _Found(Struct, frozen=True):
    place: TaskPlace
    scope: Scope
    id: str


class TasksApi:
    def __init__(self, places: TaskPlaces, calls: ListsCalls, *, clock: Clock) -> None:
        self._places = places
        self._calls = calls
        self._clock = clock
        # The last ones that were asked for, by store and task.
        self._folds: OrderedDict[tuple[str, str], TimelineFold] = OrderedDict()

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="/tasks",
            name="list_tasks",
            summary="List tasks: the caller's own, for operators those of all.",
            description="The most recent status first. A task that goes on while pages are read "
            "moves to the top of the list, and every other one is on exactly one page.",
            handle=self._list,
            query=TaskListQuery,
            result=TaskList,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/tasks/{id}",
            name="get_task",
            summary="Get a task, as A2A 1.0 has it, with its place in the journal.",
            handle=self._get,
            result=TaskDetails,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/tasks/{id}/events",
            name="list_task_events",
            summary="List the entries of a task's journal, in their order.",
            description="Each with the time of its commit. `detail=full` has the events as A2A 1.0 "
            "has them, with the first characters in place of texts of more than 256 KB.",
            handle=self._events,
            query=EventQuery,
            result=TaskEvents,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/tasks/{id}/events/{seq}",
            name="get_task_event",
            summary="Get one entry of a task's journal, with all of its texts.",
            handle=self._event,
            result=TaskEvent,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/tasks/{id}/timeline",
            name="get_task_timeline",
            summary="Get the states, the turns and the idle times of a task.",
            description="Of the times of at least one second in which nothing was recorded, the "
            "hundred longest.",
            handle=self._timeline,
            result=Timeline,
            texts=_TEXTS,
        )
        yield Route(
            method="GET",
            path="/tasks/{id}/export",
            name="export_task",
            summary="Download a task with its whole journal as one JSON file.",
            handle=self._export,
            result=TaskExport,
            texts=_TEXTS,
        )

    async def _list(self, call: Call) -> TaskList:
        asked: TaskListQuery = call.query
        query = self._query(asked, call.caller)
        if query is None:
            return TaskList(items=[], next_page_token="", total=0)
        filters = [
            str(getattr(asked, field))
            for field in ("agent", "state", "context_id", "principal", "tenant", "since")
        ]
        places = self._places.places()
        page = await merged_page(places, query, asked.page_token, filters)
        items: list[TaskView] = []
        for number, (place, stored) in enumerate(page.tasks, 1):
            items.append(view_of(stored, await self._text(place, stored)))
            if number % 20 == 0:
                await next_pass()
        return TaskList(items=items, next_page_token=page.token, total=page.total)

    def _query(self, asked: TaskListQuery, by: Principal) -> OperatorQuery | None:
        """None where the caller has no such tasks."""
        principal, tenant, agents = asked.principal, asked.tenant or None, None
        if OPERATOR not in by.roles:
            if principal not in ("", by.id) or (by.tenant and tenant not in (None, by.tenant)):
                return None
            principal, tenant = by.id, by.tenant or tenant
            agents = self._places.agents_read_by(by)
        return OperatorQuery(
            agent=asked.agent,
            agents=agents,
            principal=principal,
            tenant=tenant,
            states=_states(asked.state),
            context_id=asked.context_id,
            status_from_ms=_since(asked.since),
            limit=asked.page_size,
            without_tails=True,
        )

    async def _text(self, place: TaskPlace, stored: StoredTask) -> str:
        snapshot = stored.snapshot
        if snapshot is not None and snapshot.seq >= stored.last_seq:
            task = await previewed(place.store, stored.scope, snapshot.task)
            return text_of_task(task.data)
        # The task goes on. Its journal may be long, so it is not folded for a line of a list.
        text = text_of_status(place.status(stored.scope, stored.task_id))
        if text:
            return text
        if snapshot is not None:
            task = await previewed(place.store, stored.scope, snapshot.task)
            return text_of_task(task.data)
        first = await place.store.entries(stored.task_id, after=0, limit=1)
        if not first:
            return ""
        entry = await _with_previews(place, stored.scope, first[0])
        public = entry.public
        return text_of_first(public) if isinstance(public, Task) else row_of(entry).text

    async def _find(self, call: Call) -> _Found:
        """Raises RouteNotFound, alike for a task of someone else and for one that does not
        exist."""
        task_id = call.path["id"]
        for place in self._places.places():
            scope = await place.store.owner(task_id)
            if scope is not None and self._places.may_read(call.caller, scope):
                return _Found(place, scope, task_id)
        raise _unknown()

    async def _stored(self, found: _Found) -> tuple[StoredTask, Snapshot]:
        """The head of the task, and the task as committed."""
        try:
            snapshot = await found.place.folded(found.scope, found.id)
            stored = await found.place.store.get(found.scope, found.id)
        except TaskNotFound:
            raise _unknown() from None
        if stored is None:
            raise _unknown()
        return stored, snapshot

    async def _get(self, call: Call) -> TaskDetails:
        found = await self._find(call)
        stored, snapshot = await self._stored(found)
        whole = await previewed(found.place.store, found.scope, _joined(snapshot))
        first = await found.place.store.entries(found.id, after=0, limit=1)
        calls = await self._calls.of_task(found.id, by=call.caller)
        view = view_of(stored, text_of_task(whole.data))
        return TaskDetails(
            **{name: getattr(view, name) for name in TaskView.__struct_fields__},
            task=msgspec.Raw(whole.data),
            large_texts=[*whole.texts],
            first_seq=first[0].seq if first else snapshot.seq + 1,
            last_seq=snapshot.seq,
            queue_position=found.place.position(found.scope, found.id),
            calls=[each.id for each in calls],
        )

    async def _events(self, call: Call) -> TaskEvents:
        query: EventQuery = call.query
        found = await self._find(call)
        store = found.place.store
        first = await store.entries(found.id, after=0, limit=1)
        items: list[TaskEvent] = []
        after, left = query.after, query.limit
        async for entries in _steps(found, after, limit=left):
            for entry in entries:
                items.append(await _shown(found, entry, is_full=query.detail == "full"))
                after = entry.seq
        has_more = bool(await store.entries(found.id, after=after, limit=1)) if items else False
        return TaskEvents(
            items=items,
            next_after=after if has_more else None,
            pruned_to=first[0].seq - 1 if first else await self._last_seq(found),
        )

    async def _last_seq(self, found: _Found) -> int:
        _, snapshot = await self._stored(found)
        return snapshot.seq

    async def _event(self, call: Call) -> Response:
        found = await self._find(call)
        seq = call.path["seq"]
        number = int(seq) if seq.isascii() and seq.isdigit() and len(seq) < 10 else 0
        entries = await found.place.store.entries(found.id, after=number - 1, limit=1)
        if number < 1 or not entries or entries[0].seq != number:
            raise RouteNotFound("The journal of the task has no such entry, or it was pruned")
        return StreamingResponse(
            _entry_json(found, entries[0]), media_type=_JSON, headers=_NO_STORE
        )

    async def _timeline(self, call: Call) -> Timeline:
        found = await self._find(call)
        key = (found.place.name, found.id)
        # Out of the way of other requests, which would fold the same entries into it.
        fold = self._folds.pop(key, None) or TimelineFold()
        async for entries in _steps(found, fold.seq):
            fold.apply(entries)
        self._folds[key] = fold
        if len(self._folds) > _MAX_FOLDS:
            self._folds.popitem(last=False)
        return timeline_of(fold, await self._calls.of_task(found.id, by=call.caller))

    async def _export(self, call: Call) -> Response:
        found = await self._find(call)
        stored, snapshot = await self._stored(found)
        calls = await self._calls.of_task(found.id, by=call.caller)
        name = _UNSAFE.sub("_", found.id)[:100]
        return StreamingResponse(
            self._exported(found, stored, snapshot, calls),
            media_type=_JSON,
            headers=_NO_STORE | {"Content-Disposition": f'attachment; filename="task-{name}.json"'},
        )

    async def _exported(
        self, found: _Found, stored: StoredTask, snapshot: Snapshot, calls: list[CallView]
    ) -> AsyncIterator[bytes]:
        """The members of a `TaskExport`, as far as the task was when it began."""
        store = found.place.store
        first = await store.entries(found.id, after=0, limit=1)
        head = {
            "format": "trunkline-task.1",
            "exportedAt": format_timestamp(self._clock.now_ms()),
            "agent": found.scope.agent,
            "principal": found.scope.principal,
            "tenant": found.scope.tenant,
            "contextId": stored.context_id,
            "createdAt": format_timestamp(stored.created_ms),
            "prunedTo": first[0].seq - 1 if first else snapshot.seq,
            "calls": calls,
        }
        yield _encode(head)[:-1] + b',"task":'
        async for piece in _written_out(found, _joined(snapshot)):
            yield piece
        yield b',"events":['
        is_first = True
        async for entries in _steps(found, 0, up_to=snapshot.seq):
            ready: list[bytes] = []
            for entry in entries:
                ready.append(b"" if is_first else b",\n")
                is_first = False
                if MARK not in entry.body:
                    ready += await _entry_pieces(found, entry)
                    continue
                yield b"".join(ready)
                ready = []
                async for piece in _entry_json(found, entry):
                    yield piece
            yield b"".join(ready)
        yield b"]}"


async def _steps(
    found: _Found, after: int, *, up_to: int | None = None, limit: int | None = None
) -> AsyncIterator[list[Entry]]:
    """The entries behind `after`, as far as `up_to` and at most `limit`, in steps that are short;
    others have their turn after each."""
    while limit is None or limit > 0:
        count = _STEP if limit is None else min(limit, _STEP)
        read = await found.place.store.entries(found.id, after=after, limit=count)
        step: list[Entry] = []
        size = 0
        for entry in read:
            if up_to is not None and entry.seq > up_to:
                break
            step.append(entry)
            size += len(entry.body)
            if size > _STEP_BYTES:
                yield step
                await next_pass()
                step, size = [], 0
        if step:
            yield step
            await next_pass()
        if not read or (up_to is not None and read[-1].seq >= up_to):
            return
        after = read[-1].seq
        if limit is not None:
            limit -= len(read)


async def _with_previews(place: TaskPlace, scope: Scope, entry: Entry) -> Entry:
    if MARK not in entry.body:
        return entry
    shown = await previewed(place.store, scope, entry.body)
    return Entry(entry.seq, entry.kind, shown.data, committed_ms=entry.committed_ms)


async def _shown(found: _Found, entry: Entry, *, is_full: bool) -> TaskEvent:
    size = len(entry.public_body)
    if MARK in entry.body:
        size = (await previewed(found.place.store, found.scope, entry.public_body)).size
        entry = await _with_previews(found.place, found.scope, entry)
    return event_view(_row(entry), size, entry.public_body if is_full else None)


def _row(entry: Entry) -> EventRow:
    try:
        return row_of(entry)
    except (msgspec.DecodeError, LookupError) as error:
        raise StoreUnusable(f"An entry of a journal cannot be read: {error}") from error


async def _entry_pieces(found: _Found, entry: Entry) -> tuple[bytes, ...]:
    """The entry as JSON, in front of its event, the event, and behind it."""
    view = await _shown(found, entry, is_full=False)
    # The event is the last member, and null here.
    return _encode(view).removesuffix(b"null}"), entry.public_body, b"}"


async def _entry_json(found: _Found, entry: Entry) -> AsyncIterator[bytes]:
    """The entry as JSON with its large texts, one slice after the other."""
    before, event, behind = await _entry_pieces(found, entry)
    yield before
    async for piece in _written_out(found, event):
        yield piece
    yield behind


async def _written_out(found: _Found, data: bytes) -> AsyncIterator[bytes]:
    values = LargeValues(found.place.store)
    pieces = await values.pieces(found.scope, data)
    async for piece in values.written_out(pieces):
        yield piece


def _joined(snapshot: Snapshot) -> bytes:
    if not snapshot.artifacts:
        return snapshot.task
    return b"".join((snapshot.task[:-1], b',"artifacts":', snapshot.artifacts, b"}"))


def _unknown() -> RouteNotFound:
    return RouteNotFound("There is no task of this id")


def _states(text: str) -> tuple[TaskState, ...]:
    """Raises InvalidParams."""
    try:
        return tuple([TaskState(each.strip()) for each in text.split(",") if each.strip()])
    except ValueError:
        names = ", ".join(state.value for state in TaskState)
        raise InvalidParams.at("state", f"takes names of states: {names}") from None


def _since(text: str) -> int | None:
    """Raises InvalidParams."""
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except (ValueError, OverflowError):
        raise InvalidParams.at(
            "since", "must be an RFC 3339 time, such as 2026-01-31T23:59:59.000Z"
        ) from None


_OF_VIEW: Final = {
    "id": "The id of the task.",
    "agent": "The handle of the agent.",
    "principal": "The id of the principal whose task it is.",
    "contextId": "The id of the conversation that the task belongs to.",
    "state": "The state of the task.",
    "statusAt": "The time of the last status.",
    "text": "What the task says last, or what was asked first: at most 200 characters.",
}
_OF_EVENT: Final = {
    "seq": "Its number in the journal, from 1 and without gaps.",
    "at": "The time of its commit; null for entries of earlier releases without a status.",
    "kind": "How the journal calls the entry, such as `status.1`.",
    "name": "The name of the event in streams of A2A.",
    "state": "The state that it left the task in; null for artifacts.",
    "text": "The beginning of what it says: at most 120 characters.",
    "size": "The size of the event as JSON, in bytes.",
    "artifactId": "The id of the artifact; null for other events.",
    "event": "The event, as A2A 1.0 has it; null in summaries.",
}
_TEXTS: Final[Mapping[str, str]] = {
    **{f"TaskView.{name}": text for name, text in _OF_VIEW.items()},
    **{f"TaskDetails.{name}": text for name, text in _OF_VIEW.items()},
    **{f"TaskEvent.{name}": text for name, text in _OF_EVENT.items()},
    "TaskListQuery.agent": "Only tasks of this agent.",
    "TaskListQuery.state": "Only tasks in these states: names such as `TASK_STATE_WORKING`, "
    "separated by commas.",
    "TaskListQuery.contextId": "Only tasks of this conversation.",
    "TaskListQuery.principal": "Only tasks of this principal. Callers that are no operators see "
    "only their own.",
    "TaskListQuery.tenant": "Only tasks in this tenant; without, those in all tenants of the "
    "caller.",
    "TaskListQuery.since": "Only tasks whose status is at least this recent.",
    "TaskList.total": "How many tasks there are on all pages.",
    "TaskDetails.task": "The task, as A2A 1.0 has it. Texts of more than 256 KB are cut.",
    "largeTexts": "The texts that were cut, in the order in which they appear first.",
    "LargeText.size": "The size of the whole text as JSON, in bytes.",
    "LargeText.preview": "The characters that are shown in its place.",
    "firstSeq": "The number of the first entry.",
    "TaskDetails.firstSeq": "The number of the first entry of the journal that is kept.",
    "lastSeq": "The number of the last entry.",
    "queuePosition": "The place in the queue, 1 for the next to start; null for a task that does "
    "not wait, or that waits at another node.",
    "TaskDetails.calls": "The ids of the calls that the task answers, and of those that its turns "
    "have made, as far as they are kept.",
    "EventQuery.after": "Only entries behind this number.",
    "EventQuery.limit": "Maximum number of entries.",
    "EventQuery.detail": "`full` for the events themselves.",
    "nextAfter": "The `after` of the next page; null behind the last entry so far.",
    "prunedTo": "Entries up to this number were pruned; 0 if the journal is whole.",
    "states": "The states of the task, one after the other.",
    "turns": "The messages of the caller, and the runs of the agent for them.",
    "gaps": "Times in which nothing was recorded, of a second and more.",
    "calls": "The calls that the task answers, and those that its turns have made, as far as they "
    "are kept.",
    "StateBand.state": "The state.",
    "StateBand.seq": "The number of the entry that began it.",
    "from": "When it began; null if that is not known.",
    "to": "When it ended; null if that is not known, and while it lasts.",
    "number": "The number of the message, from 1.",
    "messageId": "The id of the message; empty for one that was pruned.",
    "queuedAt": "The time when the message was accepted.",
    "startedAt": "The time when the agent began; null for a turn that has not begun.",
    "TurnSpan.endedAt": "The time of its end; null for a turn that has not ended.",
    "outcome": "The state in which the turn left the task; null for a turn that has not ended.",
    "ms": "Its length in milliseconds.",
    "afterSeq": "The number of the entry before it.",
    "format": "The format of the file, which never changes its meaning.",
    "exportedAt": "The time of the export.",
    "TaskExport.agent": "The handle of the agent.",
    "TaskExport.principal": "The id of the principal whose task it is.",
    "TaskExport.contextId": "The id of the conversation that the task belongs to.",
    "TaskExport.task": "The task, as A2A 1.0 has it, with all texts.",
    "events": "The entries of the journal, with their events.",
}
