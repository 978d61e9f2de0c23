"""`GatewayLive`: the tasks of all stores and the news of them, connected with agents and calls."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from trunkline.api.api import Identify, Route
from trunkline.app.directory import AgentDirectory
from trunkline.app.live_nodes import LiveNodes
from trunkline.app.routing import GatewayRouting
from trunkline.app.runtimes import Runtimes
from trunkline.app.task_places import GatewayTaskPlaces
from trunkline.console.live.live_api import LiveApi
from trunkline.console.live.live_feed import LiveFeed
from trunkline.console.tasks.tasks_api import TasksApi
from trunkline.console.wire.log import WireLog
from trunkline.model.events import Entry
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import TaskState
from trunkline.ports.clock import Clock
from trunkline.ports.live import CountsStreams, TellsLive
from trunkline.ports.wire_log import WireSummary
from trunkline.routing.call_records import RoutedCall
from trunkline.runtime.live_task import LiveTask


class TaskNews(Struct, frozen=True, rename="camel"):
    id: str
    agent: str
    context_id: str
    principal: str
    state: TaskState
    last_seq: int
    at: str


class CallNews(Struct, frozen=True):
    id: str


class GatewayLive:
    def __init__(
        self,
        *,
        runtimes: Runtimes,
        directory: AgentDirectory,
        routing: GatewayRouting,
        streams: CountsStreams,
        wire: WireLog,
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._stop_wire: Callable[[], None] | None = None
        self._runtimes = runtimes
        self._routing = routing
        self._streams = streams
        self._clock = clock
        self._places = GatewayTaskPlaces(
            runtimes=runtimes, rights=routing.routing.rights, callees=directory.callees
        )
        self._feed = LiveFeed(
            clock=clock,
            may_read=self._places.may_read,
            on_heard=self._on_heard,
            on_read=self._on_read,
        )
        self._nodes = LiveNodes(self._feed, runtimes, clock=clock)

    @property
    def feed(self) -> TellsLive:
        return self._feed

    def routes(self, identify: Identify) -> Iterator[Route]:
        calls = self._routing.routing.call_list
        yield from TasksApi(self._places, calls, clock=self._clock).routes()
        live = LiveApi(self._feed, identify=identify, streams=self._streams, clock=self._clock)
        yield from live.routes()

    def agents_changed(self) -> None:
        if self._feed.is_heard:
            self._feed.tell("agents", {}, key="agents")

    def end_streams(self) -> None:
        self._feed.end_streams()

    def open(self) -> None:
        """Hear the other nodes from now on."""
        self._nodes.open()

    async def close(self) -> None:
        await self._feed.close()
        await self._nodes.close()

    def _on_read(self, is_read: bool) -> None:
        self._nodes.watched(is_read)

    def _on_heard(self, is_heard: bool) -> None:
        self._runtimes.watch(self._committed if is_heard else None)
        self._routing.routing.news.on_change = self._call_changed if is_heard else None

        if self._stop_wire is not None:
            self._stop_wire()
            self._stop_wire = None
        if is_heard:
            self._stop_wire = self._wire.subscribe(self._recorded)

    def _recorded(self, exchange: WireSummary) -> None:
        self._feed.tell("wire", exchange, key=exchange.id)

    def _committed(self, live: LiveTask, entries: tuple[Entry, ...]) -> None:
        scope = live.scope
        news = TaskNews(
            id=live.task_id,
            agent=scope.agent,
            context_id=live.context_id,
            principal=scope.principal,
            state=live.committed_state,
            last_seq=entries[-1].seq,
            at=format_timestamp(self._clock.now_ms()),
        )
        self._feed.tell("tasks", news, key=live.task_id, scope=scope)

    def _call_changed(self, call: RoutedCall) -> None:
        self._feed.tell("calls", CallNews(call.id), key=call.id, scope=call.session.scope)
