"""`stored_sessions`: the calls and sessions in the stores of a configuration, without a gateway.

No agent is loaded, and no task goes on. An agent that has tasks there and is not in the
configuration, such as one of a Python file or of the registry, is taken to have the usual profile.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from trunkline.app.adapters import make_backend, make_store, resources_for
from trunkline.app.directory import profile_of
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.clock import SystemClock, Uuid7Ids
from trunkline.engine.agent_calls import CallPolicy
from trunkline.model.handles import EVERY
from trunkline.model.outputs import Output
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.ports.call_views import ListsCalls, ListsSessions
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.routing.callees import Callee
from trunkline.routing.routing import Routing
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.runtime import Runtime
from trunkline.settings import AgentSettings, Settings, StoreSettings


class Lists(Struct, frozen=True):
    """What operators look at."""

    calls: ListsCalls
    sessions: ListsSessions


@asynccontextmanager
async def stored_sessions(settings: Settings) -> AsyncIterator[Lists]:
    """Other gateways may run on a store that several share. Raises StoreError."""
    clock = SystemClock()
    async with AsyncExitStack() as opened:
        stores: dict[StoreSettings, Store] = {}
        for each in dict.fromkeys((settings.store, *settings.stores())):
            store = make_store(each, agent=settings.adopting_agent(each), clock=clock)
            await store.open()
            opened.push_async_callback(store.close)
            stores[each] = store
        callees = await _callees(settings, stores, clock=clock)

        async def open_main() -> Store:
            return stores[settings.store]

        routing = Routing(
            callees=callees,
            limits=lambda: settings.routing.limits,
            clock=clock,
            ids=Uuid7Ids(),
            open_main=open_main,
        )
        try:
            yield Lists(routing.call_list, routing.session_list)
        finally:
            await routing.close()


async def _callees(
    settings: Settings, stores: dict[StoreSettings, Store], *, clock: Clock
) -> "_StoredAgents":
    async def open_main() -> Store:
        return stores[settings.store]

    found: dict[str, Callee] = {}
    for place, store in stores.items():
        # Those with a colon are of the gateway itself, such as the ones that carry out debates.
        handles = {each.agent for each in await store.scopes() if ":" not in each.agent}
        handles |= {handle for handle in settings.agents if not handle.endswith(EVERY)}
        agents = [
            _agent(handle, settings, clock=clock)
            for handle in sorted(handles)
            if _store_of(handle, settings) == place
        ]
        ids = Uuid7Ids()
        runtime = Runtime(
            store=store,
            clock=clock,
            ids=ids,
            agents=agents,
            main=MainStore(open=open_main, has_tasks=place == settings.store, ids=ids),
        )
        found |= {
            agent.handle: Callee(
                agent=agent,
                service=runtime.service,
                sessions=runtime.sessions,
                queued_replies=runtime.queued_replies,
            )
            for agent in agents
        }
    return _StoredAgents(found)


def _settings_of(handle: str, settings: Settings) -> AgentSettings | None:
    owner = handle.partition("/")[0]
    return settings.agents.get(handle) or settings.agents.get(f"{owner}/{EVERY}")


def _store_of(handle: str, settings: Settings) -> StoreSettings:
    own = _settings_of(handle, settings)
    return settings.store if own is None or own.store is None else own.store


def _agent(handle: str, settings: Settings, *, clock: Clock) -> PublishedAgent:
    own = _settings_of(handle, settings)
    backend: Backend = _Absent()
    if own is not None and isinstance(own.backend, OpenClawBackend):
        # It has its own names for sessions.
        backend = make_backend(own, resources_for(own, settings, clock=clock))
    return PublishedAgent(
        handle=handle,
        backend=backend,
        profile=None if own is None else profile_of(own),
        agent_id="" if own is None else own.agent_id,
        account_id="" if own is None else own.account_id,
        calls_others=True,
    )


class _StoredAgents(Struct, frozen=True):
    """It implements `routing.callees.Callees`."""

    by_handle: dict[str, Callee]

    def callee(self, name: str) -> Callee | None:
        return self.by_handle.get(name)

    def callees(self) -> Sequence[Callee]:
        return [*self.by_handle.values()]

    def policy_of(self, handle: str) -> CallPolicy:
        return CallPolicy(may_call=())


class _Absent:
    """In place of a backend that is not there."""

    may_reply_directly = True
    is_pure = False
    can_resume = False

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        raise AssertionError("no turn begins without a gateway")

    async def cancel(self, run_id: str) -> None:
        """No turn runs."""

    async def close(self) -> None:
        """Nothing is open."""
