"""`Routes`: carries out the routes of the configuration.

The commit that ends a task, or that completes an artifact, carries a record for each route that
follows it. So no route is forgotten, whatever process dies; and what a route calls has an id that
follows from the task, so that a second attempt does nothing.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from trunkline.engine.agent_calls import CallRefused
from trunkline.engine.call_outcome import answer_of, outcome_of
from trunkline.engine.routes import Route, follows_artifact, follows_end, routes_of
from trunkline.engine.session import session_key
from trunkline.model.errors import LimitReached
from trunkline.model.events import Entry
from trunkline.model.principal import Grant, Principal
from trunkline.model.routed_calls import CallOrigin
from trunkline.model.values import TERMINAL, Artifact, Task, TaskArtifactUpdateEvent, TaskState
from trunkline.ports.caller_records import array_text
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Delete, Group, Key, Put, Record
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope, Store
from trunkline.routing.callees import Callee, Callees
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls
from trunkline.routing.polls import Polls
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.live_task import LiveTask
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import Participant, Watch, Watchers
from trunkline.runtime.sessions import session_context

_log = logging.getLogger("trunkline.routing")

ROUTE: Final = "route.1"
# How often a route was taken in an hour.
COUNT: Final = "route-count.1"
SOURCE: Final = "route"
_HOUR_MS: Final = 3600 * 1000
_WORKERS: Final = 16


class Followed(Struct, frozen=True, omit_defaults=True):
    """The body of a route to take: what it follows."""

    route: str
    scope: Scope
    context_id: str
    task_id: str
    # Of a route that follows an artifact.
    artifact_id: str = ""
    # How the turn came about, so that routes cannot go in a circle.
    chain: tuple[str, ...] = ()
    call: CallOrigin | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Followed).decode


class Routes(Struct, kw_only=True, eq=False):
    # Those of the configuration in force; written by `take_over` alone.
    routes: Sequence[Route] = ()
    callees: Callees
    calls: Calls
    polls: Polls
    open_main: Callable[[], Awaitable[Store]]
    clock: Clock
    # Of each store, with what they are while there are routes.
    _watching: list[tuple[Watchers, Watch]] = []

    def watchers(self, main: MainStore, wake: Callable[[], None]) -> Watchers:
        """The participants of the tasks of one store. `main` is its way to the main store."""

        def of(live: LiveTask) -> tuple[Participant, ...]:
            found = routes_of(self.routes, live.scope.agent)
            return (RouteWatch(found, main, wake),) if found else ()

        watchers = Watchers(of if self.routes else None)
        self._watching.append((watchers, of))
        return watchers

    def take_over(self, routes: Sequence[Route]) -> None:
        """Follow these routes from now on. Tasks that have begun keep those they have."""
        self.routes = routes
        for watchers, of in self._watching:
            watchers.of = of if routes else None

    def due_kinds(self) -> tuple[DueKind, ...]:
        return (DueKind(name=ROUTE, handle=self._take, workers=_WORKERS),)

    async def _take(self, due: Record) -> Sequence[Change]:
        followed = _decode(due.body)
        route = next((each for each in self.routes if each.name == followed.route), None)
        source = self.callees.callee(followed.scope.agent)
        if route is None or source is None:
            return ()
        about = {"route": route.name, "agent": followed.scope.agent, "task_id": followed.task_id}
        if not await self._is_allowed(route):
            _log.warning("a route was not taken, because it was taken too often", extra=about)
            return ()
        # The operator who wrote the route has granted what it calls, and nothing else.
        principal = Principal(id=followed.scope.principal, tenant=followed.scope.tenant)
        reader = msgspec.structs.replace(principal, grants=(Grant(followed.scope.agent),))
        task = await self.polls.task_of(source, reader, followed.scope.tenant, followed.task_id)
        if task is None:
            return ()
        value = _input(followed, task)
        if route.channel:
            _log.info("a route was taken", extra=about | {"input": value})
        if route.call:
            await self._call(route, source, followed, principal, value, due.key.id, about)
        return ()

    async def _call(
        self,
        route: Route,
        source: Callee,
        followed: Followed,
        principal: Principal,
        value: dict[str, Any],
        id: str,
        about: dict[str, Any],
    ) -> None:
        called = self.callees.callee(route.call)
        handle = route.call if called is None else called.agent.handle
        agent, scope = source.agent, followed.scope
        peer = agent.peer(scope, followed.context_id, followed.task_id)
        turn = CallingTurn(
            agent=agent.handle,
            session=SessionRef(
                scope, session_context(agent, followed.context_id, followed.task_id)
            ),
            session_key=session_key(agent.profile, peer),
            task_id=followed.task_id,
            principal=msgspec.structs.replace(principal, grants=(Grant(handle),)),
            chain=(*followed.chain, agent.mark),
            call=followed.call,
            is_route=True,
        )
        arguments = {
            "agent": handle,
            "input": value,
            "timeout": route.timeout_ms,
            **({"skill": route.skill} if route.skill else {}),
        }
        try:
            await self.calls.call(turn, arguments, source_tool=SOURCE, id=id)
        except CallRefused as refused:
            _log.warning("a route was not taken", extra=about | {"reason": refused.text})

    async def _is_allowed(self, route: Route) -> bool:
        """Whether the route may be taken once more in this hour."""
        if not route.max_per_hour:
            return True
        hour = self.clock.now_ms() // _HOUR_MS
        main = await self.open_main()
        count = Add(key=Key(COUNT, route.name, str(hour)), amount=1, at_most=route.max_per_hour)
        try:
            await main.change(count, Delete(key=Key(COUNT, route.name, str(hour - 1))))
        except LimitReached:
            return False
        return True


class RouteWatch:
    """The participant of a task that routes follow."""

    def __init__(self, routes: Sequence[Route], main: MainStore, wake: Callable[[], None]) -> None:
        self._routes = routes
        self._main = main
        self._wake = wake
        self._has_put = False

    def enlist(
        self, live: LiveTask, entries: tuple[Entry, ...], state: TaskState
    ) -> Sequence[Group]:
        groups: list[Group] = []
        for artifact in _completed(live, entries) if self._follows_artifacts() else ():
            groups += [
                self._put(live, route, artifact.artifact_id)
                for route in self._routes
                if follows_artifact(route, artifact)
            ]
        if state in TERMINAL:
            groups += [self._put(live, each) for each in self._routes if follows_end(each, state)]
        self._has_put = self._has_put or bool(groups)
        return groups

    def committed(
        self,
        live: LiveTask,
        entries: tuple[Entry, ...],
        state: TaskState,
        skipped: Sequence[Group],
    ) -> None:
        if state in TERMINAL:
            live.participants = tuple([each for each in live.participants if each is not self])
        if self._has_put:
            self._has_put = False
            self._wake()

    def _follows_artifacts(self) -> bool:
        return any(route.on == "artifact" for route in self._routes)

    def _put(self, live: LiveTask, route: Route, artifact_id: str = "") -> Group:
        options = live.ahead().last_options
        followed = Followed(
            route=route.name,
            scope=live.scope,
            context_id=live.context_id,
            task_id=live.task_id,
            artifact_id=artifact_id,
            chain=() if options is None else options.call_chain,
            call=None if options is None else options.call,
        )
        # A route of its own scope, so that a slow one delays no other.
        key = Key(ROUTE, array_text(route.name, live.task_id), _id(followed))
        put = Put(key=key, body=_encode(followed), due_in_ms=0)
        return Group(self._main.changes(key.scope, put), is_required=False)


def _completed(live: LiveTask, entries: tuple[Entry, ...]) -> list[Artifact]:
    """The artifacts of which the last chunk is among the entries."""
    ids = [
        entry.event.artifact.artifact_id
        for entry in entries
        if isinstance(entry.event, TaskArtifactUpdateEvent) and entry.event.last_chunk
    ]
    if not ids:
        return []
    return [each for each in live.ahead().artifacts if each.artifact_id in ids]


def _id(followed: Followed) -> str:
    """The same for the same route of the same task."""
    text = array_text(followed.route, followed.task_id, followed.artifact_id)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _input(followed: Followed, task: Task) -> dict[str, Any]:
    """What the called agent gets."""
    value: dict[str, Any] = {
        "route": followed.route,
        "agent": followed.scope.agent,
        "taskId": followed.task_id,
    }
    if followed.artifact_id:
        found = [each for each in task.artifacts if each.artifact_id == followed.artifact_id]
        parts = [part for each in found for part in each.parts]
        names = [each.name for each in found if each.name]
        return value | {"artifact": "".join(names), "output": answer_of(parts).output}
    outcome = outcome_of(task.status, task.artifacts)
    if outcome.answer is not None:
        return value | {"output": outcome.answer.output}
    return value | {"error": {"code": outcome.code, "message": outcome.text}}
