"""`Routing`: puts the parts of response routing together and connects them with the runtimes."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from trunkline.engine.agent_calls import CallLimits
from trunkline.engine.routes import Route
from trunkline.ports.clock import Clock, Ids
from trunkline.ports.store import Store
from trunkline.routing.answers import Answers
from trunkline.routing.call_list import CallList
from trunkline.routing.call_news import CallNews
from trunkline.routing.call_records import WATCH
from trunkline.routing.call_watch import CallWatches, numbers
from trunkline.routing.callees import Callees
from trunkline.routing.callers import CallingTurn
from trunkline.routing.calls import Calls, OnAudit
from trunkline.routing.counts import CallCounts
from trunkline.routing.deadlines import CallEnds
from trunkline.routing.plans import Plans
from trunkline.routing.polls import Polls
from trunkline.routing.rights import Rights
from trunkline.routing.routes import Routes
from trunkline.routing.session_list import SessionList
from trunkline.routing.sessions import SessionDirectory
from trunkline.routing.tool_tokens import TurnToolTokens
from trunkline.routing.tools import Toolbox, actions
from trunkline.routing.waiting import Waiting
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import Rejoin, Watchers
from trunkline.runtime.runtime import Runtime

_log = logging.getLogger("trunkline.routing")

TOPIC = "calls"


def log_event(event: str, turn: CallingTurn, callee: str) -> None:
    """For a gateway without an audit."""
    level = logging.DEBUG if event == "invocation" else logging.INFO
    _log.log(level, "agent call", extra={"event": event, "agent": turn.agent, "callee": callee})


class Routing:
    def __init__(
        self,
        *,
        callees: Callees,
        limits: Callable[[], CallLimits],
        clock: Clock,
        ids: Ids,
        open_main: Callable[[], Awaitable[Store]],
        on_audit: OnAudit = log_event,
        routes: Sequence[Route] = (),
    ) -> None:
        self._clock = clock
        self._numbers = numbers()
        self._main: Runtime | None = None
        self._runtimes: Iterable[Runtime] = ()
        self.counts = CallCounts()
        self._waiting = Waiting(open_main=open_main, clock=clock)
        self.news = CallNews(
            counts=self.counts,
            waiting=self._waiting,
            wake=self._wake,
            wake_in=self._wake_in,
            tell=self._tell,
        )
        self.calls = Calls(
            callees=callees,
            limits=limits,
            open_main=open_main,
            clock=clock,
            ids=ids,
            waiting=self._waiting,
            on_audit=on_audit,
        )
        polls = Polls(callees=callees, open_main=open_main)
        self.plans = Plans(
            calls=self.calls,
            polls=polls,
            limits=limits,
            clock=clock,
            ids=ids,
            open_main=open_main,
        )
        self.toolbox = Toolbox(calls=self.calls, polls=polls, plans=self.plans)
        self._answers = Answers(callees=callees, limits=limits, open_main=open_main)
        self.tool_tokens = TurnToolTokens(
            actions=actions(self.toolbox),
            open_main=open_main,
            clock=clock,
            wake_in=self._wake_in,
        )
        self.sessions = SessionDirectory(
            callees=callees,
            open_main=open_main,
            clock=clock,
            news=self.news,
            end_tokens=self.tool_tokens.end_session,
        )
        self._ends = CallEnds(
            open_main=open_main,
            clock=clock,
            next_number=self._numbers,
            outcome_from_task=polls.outcome_from_task,
            session_ended_ms=self.sessions.ended_ms,
            news=self.news,
            wake_in=self._wake_in,
        )
        self.rights = Rights(callees)
        self.call_list = CallList(open_main=open_main, rights=self.rights)
        self.session_list = SessionList(
            callees=callees, open_main=open_main, rights=self.rights, sessions=self.sessions
        )

        self._routes = Routes(
            routes=routes,
            callees=callees,
            calls=self.calls,
            polls=polls,
            open_main=open_main,
            clock=clock,
        )

    @property
    def agents(self) -> Sequence[PublishedAgent]:
        """The agents of routing itself, which the runtime of the main store publishes."""
        return self.plans.agents

    def take_over(self, routes: Sequence[Route]) -> None:
        """Follow these routes from now on."""
        self._routes.take_over(routes)

    def watchers(self, main: MainStore) -> Watchers:
        """The participants that tasks of one store have for their routes."""
        return self._routes.watchers(main, self._wake)

    def rejoins(self, main: MainStore) -> Mapping[str, Rejoin]:
        """The participants of the tasks of one store. `main` is its way to the main store."""
        watches = CallWatches(
            main=main,
            clock=self._clock,
            news=self.news,
            next_number=self._numbers,
        )
        return {WATCH: watches.rejoin}

    def due_kinds(self) -> tuple[DueKind, ...]:
        """The due work of the main store."""
        return (
            *self._ends.due_kinds(),
            *self._answers.due_kinds(),
            *self._routes.due_kinds(),
            *self.tool_tokens.due_kinds(),
        )

    def connect(self, main: Runtime, runtimes: Iterable[Runtime]) -> None:
        """`main` is the runtime of the main store; `runtimes` are always all that there are."""
        self._main, self._runtimes = main, runtimes
        self.plans.runtime = main
        main.hear(TOPIC, self._waiting.wake)

    async def open(self) -> None:
        """Continue the calls from before a restart. Raises StoreError."""
        await self._ends.arm()

    async def close(self) -> None:
        await self.tool_tokens.close()
        await self._waiting.close()

    def _wake(self) -> None:
        for runtime in self._runtimes:
            runtime.due.wake()

    def _wake_in(self, seconds: float) -> None:
        if self._main is not None:
            self._main.due.wake_in(seconds)

    def _tell(self, call_id: str) -> None:
        if self._main is not None:
            self._main.tell(TOPIC, call_id)
