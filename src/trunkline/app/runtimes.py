"""`Runtimes`: the runtimes of a gateway, one for each store that its agents use."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from weakref import WeakValueDictionary

from trunkline.app.adapters import make_cluster, make_store
from trunkline.background import BackgroundTasks
from trunkline.clock import Uuid7Ids
from trunkline.model.errors import Unavailable
from trunkline.model.principal import Principal
from trunkline.ports.call_path import CredentialFor
from trunkline.ports.clock import Clock
from trunkline.ports.cluster import Times
from trunkline.ports.gate import Gate
from trunkline.ports.store import Store
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.participants import Rejoin, Tap, Watchers
from trunkline.runtime.runtime import Runtime
from trunkline.settings import StoreSettings
from trunkline.settings.server import ServerSettings


class Runtimes:
    """A runtime is made with the first agent of its store. One that was opened while the gateway
    runs is closed with the last agent of its store; the main store stays open."""

    def __init__(
        self,
        *,
        main: StoreSettings,
        server: ServerSettings,
        clock: Clock,
        times: Times | None = None,
        gate: Gate | None = None,
        due_kinds: Iterable[DueKind] = (),
        agents: Callable[[], Iterable[PublishedAgent]] = tuple,
        gateway: str = "",
        credentials: Callable[[Principal | None, str], CredentialFor] | None = None,
        rejoins: Callable[[MainStore], Mapping[str, Rejoin]] | None = None,
        watchers: Callable[[MainStore], Watchers] | None = None,
    ) -> None:
        """`times` are those of gateways that share a store. `due_kinds` is due work of the main
        store, `agents` returns those that only the gateway calls, with their tasks there, and
        `gateway` is the name of the gateway in call chains. `rejoins` and
        `watchers` return the participants of tasks by the way from their store to the main
        store."""
        self._rejoins = rejoins
        self._watchers = watchers
        self._due_kinds = tuple(due_kinds)
        self._agents = agents
        self._gateway = gateway
        self._credentials = credentials
        self._main = main
        self._times = times or Times()
        self._gate = gate
        self._server = server
        self._clock = clock
        self._by_store: dict[StoreSettings, Runtime] = {}
        # A store is not opened while it is being closed. Each has a lock of its own, because a
        # runtime that opens or closes may need the main store.
        self._changing: WeakValueDictionary[StoreSettings, asyncio.Lock] = WeakValueDictionary()
        self._is_open = False
        # Set when all runtimes are open, or when that has failed; None before that begins.
        self._opening: asyncio.Event | None = None
        self._has_opened = False
        # Learns of all commits, while anyone wants that.
        self._tap: Tap | None = None
        # Agents that leave, and agents that finish their turns after they were replaced.
        self.leaving = BackgroundTasks("leaving agents")

    def __iter__(self) -> Iterator[Runtime]:
        return iter([*self._by_store.values()])

    def by_store(self) -> list[tuple[StoreSettings, Runtime]]:
        return [*self._by_store.items()]

    @property
    def main(self) -> Runtime | None:
        """The runtime of the main store; None while nothing needs it."""
        return self._by_store.get(self._main)

    def watch(self, tap: Tap | None) -> None:
        """Tell one listener of all commits from now on, or none: then a commit makes no further
        call."""
        before, self._tap = self._tap, tap
        for runtime in self:
            journal = runtime.journal
            journal.taps = tuple([each for each in journal.taps if each is not before])
            if tap is not None:
                journal.taps += (tap,)

    def problems(self) -> list[str]:
        """The reasons why the gateway should get no traffic now, for `/readyz`."""
        return [problem for runtime in self for problem in runtime.problems()]

    def at(self, store: StoreSettings, *, adopting: str) -> Runtime:
        """The runtime of the store, which may be new. `adopting` is the handle of the agent that
        gets the tasks which another program left there."""
        found = self._by_store.get(store)
        if found is None:
            found = self._by_store[store] = self._made(store, adopting)
        return found

    def main_of(self, handle: str) -> MainStore | None:
        """The way from the tasks of an agent to the main store; None for an agent that is not
        published."""
        for runtime in self._by_store.values():
            if handle in runtime.agents:
                return runtime.main
        return None

    async def opened(self, store: StoreSettings, *, adopting: Callable[[], str]) -> Runtime:
        """The same, open. Raises StoreError or Unavailable."""
        async with self._changing.setdefault(store, asyncio.Lock()):
            if not self._is_open:
                raise Unavailable("The gateway is starting or shutting down", retry_after_s=5)
            if store in self._by_store:
                return self._by_store[store]
            runtime = self._made(store, adopting())
            try:
                await runtime.open()
            except BaseException:
                await runtime.close()
                raise
            self._by_store[store] = runtime
            return runtime

    async def close_unused(self, store: StoreSettings) -> None:
        """Close the runtime of the store if no agent uses it any more."""
        async with self._changing.setdefault(store, asyncio.Lock()):
            runtime = self._by_store.get(store)
            if runtime is None or runtime.agents or store == self._main or not self._is_open:
                return
            del self._by_store[store]
            await runtime.close()

    async def open(self) -> None:
        """Open all runtimes, or none if one cannot be opened."""
        opened: list[Runtime] = []
        self._opening = asyncio.Event()
        try:
            for runtime in self:
                opened.append(runtime)
                await runtime.open()
            self._is_open = self._has_opened = True
        except BaseException:
            for runtime in reversed(opened):
                await runtime.close()
            raise
        finally:
            self._opening.set()

    async def drain(self, *, grace_s: float) -> None:
        await self._stop_changes()
        async with asyncio.TaskGroup() as draining:
            for runtime in self:
                draining.create_task(runtime.drain(grace_s=grace_s))

    async def close(self) -> None:
        await self._stop_changes()
        self._has_opened = False
        for runtime in self:
            await runtime.close()

    async def _stop_changes(self) -> None:
        """Let no more agents come or go. The runtimes end the turns of those that are leaving."""
        self._is_open = False
        await self.leaving.close()

    async def main_store(self) -> Store:
        """The main store, open, also if no agent has its tasks there. Turns need it from their
        begin, which may be while the gateway starts, to their end, which may be while it stops.
        Raises StoreError or Unavailable."""
        if self._opening is not None:
            await self._opening.wait()
        runtime = self.main if self._has_opened else None
        if runtime is None:
            runtime = await self.opened(self._main, adopting=lambda: "")
        return await runtime.main.open()

    def _wake_main(self) -> None:
        if (main := self.main) is not None:
            main.due.wake()

    def _made(self, store: StoreSettings, adopting: str) -> Runtime:
        ids = Uuid7Ids()
        made = make_store(
            store,
            agent=adopting,
            clock=self._clock,
            find=lambda handle: runtime.publishing.find(handle),
        )
        is_main = store == self._main
        if is_main:
            main = MainStore.own(made, ids=ids)
        else:
            main = MainStore(
                open=self.main_store,
                has_tasks=False,
                ids=ids,
                wake=self._wake_main,
            )
        runtime = Runtime(
            store=made,
            cluster=make_cluster(store, made, times=self._times, clock=self._clock),
            clock=self._clock,
            ids=ids,
            agents=self._agents() if is_main else (),
            main=main,
            stream_buffer=self._server.stream_buffer_events,
            heartbeat_s=self._server.heartbeat_s,
            gate=self._gate,
            participants=None if self._rejoins is None else self._rejoins(main),
            watchers=None if self._watchers is None else self._watchers(main),
            due_kinds=self._due_kinds if is_main else (),
            gateway=self._gateway,
            credentials=self._credentials,
        )
        if self._tap is not None:
            runtime.journal.taps += (self._tap,)
        return runtime
