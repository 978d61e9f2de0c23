"""Agents of one gateway that ask each other, on real runtimes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from trunkline.backends.python import PythonBackend, Turn, agent
from trunkline.engine import call_chain
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.engine.routes import Route
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageConfiguration,
    SendMessageRequest,
)
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import Message, Part, Role, Task, text_of
from trunkline.ports.cluster import Cluster
from trunkline.ports.records import Record
from trunkline.ports.session_entries import SessionRef, latest_entries
from trunkline.ports.store import Scope, Store
from trunkline.routing.call_records import CALL, CallRecord, decode_record
from trunkline.routing.callees import Callee
from trunkline.routing.callers import CallingTurn
from trunkline.routing.routing import Routing
from trunkline.routing.tools import RoutingTool, actions
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.outbox import MainStore
from trunkline.runtime.runtime import Runtime
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds, settle

Function: TypeAlias = Callable[[Turn], Any]
ALICE = Principal(id="alice", grants=EVERYTHING)
BOB = Principal(id="bob", grants=EVERYTHING)

_decode = msgspec.json.Decoder(Task).decode


class CallWorld:
    """`functions` are the agents by slug, under the owner `acme`. Those in `elsewhere` have their
    tasks in another store than the main one."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        *,
        store: Store | None = None,
        elsewhere: Mapping[str, Function] | None = None,
        other_store: Store | None = None,
        clock: FakeClock | None = None,
        limits: CallLimits | None = None,
        policies: Mapping[str, CallPolicy] | None = None,
        routes: Sequence[Route] = (),
        published: Mapping[str, Mapping[str, Any]] | None = None,
        skills: Mapping[str, tuple[str, ...]] | None = None,
        node: str = "id",
        cluster: Cluster | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = store if store is not None else MemoryStore(self.clock)
        self.limits = limits or CallLimits()
        self.policies = {f"acme/{slug}": policy for slug, policy in (policies or {}).items()}
        self.skills = skills or {}
        # What else is said of agents when they are published, by slug.
        self._details = published or {}
        self.audit: list[tuple[str, str, str]] = []
        ids = SequentialIds(node)
        self.routing = Routing(
            callees=self,
            limits=lambda: self.limits,
            clock=self.clock,
            ids=SequentialIds(f"{node}-call"),
            open_main=self._open_main,
            on_audit=self._heard,
            routes=routes,
        )
        own = MainStore.own(self.store, ids=ids)
        self.main = Runtime(
            store=self.store,
            clock=self.clock,
            ids=ids,
            agents=[
                *(self._published(slug, fn) for slug, fn in functions.items()),
                *self.routing.agents,
            ],
            main=own,
            cluster=cluster,
            participants=self.routing.rejoins(own),
            watchers=self.routing.watchers(own),
            due_kinds=self.routing.due_kinds(),
        )
        self.runtimes = [self.main]
        if elsewhere:
            other = other_store if other_store is not None else MemoryStore(self.clock)
            way = MainStore(open=self._open_main, has_tasks=False, ids=ids, wake=self._wake)
            self.runtimes.append(
                Runtime(
                    store=other,
                    clock=self.clock,
                    ids=SequentialIds(f"{node}-other"),
                    agents=[self._published(slug, fn) for slug, fn in elsewhere.items()],
                    main=way,
                    participants=self.routing.rejoins(way),
                    watchers=self.routing.watchers(way),
                )
            )
        self.routing.connect(self.main, self.runtimes)
        self._messages = 0

    async def _open_main(self) -> Store:
        return self.store

    def _wake(self) -> None:
        self.main.due.wake()

    def _heard(self, event: str, turn: CallingTurn, callee: str) -> None:
        self.audit.append((event, turn.agent, callee))

    def _published(self, slug: str, fn: Function) -> PublishedAgent:
        tools = {
            name: RoutingTool(definition, action)
            for name, (definition, action) in actions(self.routing.toolbox).items()
        }
        backend = PythonBackend(agent(name=slug)(fn), clock=self.clock, tools=tools)
        details: dict[str, Any] = {"calls_others": True, **self._details.get(slug, {})}
        return PublishedAgent(handle=f"acme/{slug}", backend=backend, **details)

    # As `Callees`.

    def callee(self, name: str) -> Callee | None:
        found = [each for each in self.callees() if each.agent.handle in (name, f"acme/{name}")]
        return found[0] if found else None

    def callees(self) -> Sequence[Callee]:
        return [
            Callee(
                agent=each,
                service=runtime.service,
                sessions=runtime.sessions,
                queued_replies=runtime.queued_replies,
                skills=self.skills.get(each.handle, ()),
            )
            for runtime in self.runtimes
            for each in runtime.agents.values()
            if each not in self.routing.agents
        ]

    def policy_of(self, handle: str) -> CallPolicy:
        return self.policies.get(handle, CallPolicy())

    # As a client.

    async def send(
        self,
        slug: str,
        text: str,
        *,
        context: str = "",
        task: str = "",
        principal: Principal = ALICE,
        now: bool = False,
    ) -> Task:
        self._messages += 1
        found = self.callee(slug)
        assert found is not None
        request = SendMessageRequest(
            message=Message(
                message_id=f"m-{self._messages}",
                context_id=context,
                task_id=task,
                role=Role.USER,
                parts=(Part(text=text),),
            ),
            configuration=SendMessageConfiguration(return_immediately=now),
        )
        answer = await found.service.send(found.agent, Caller(principal=principal), request)
        return _decode(answer.task)  # type: ignore[union-attr]

    def turn_of(self, slug: str, *, context: str, principal: Principal = ALICE) -> CallingTurn:
        """A turn of the agent that is under way, as far as calls are concerned."""
        handle = f"acme/{slug}"
        found = self.callee(slug)
        assert found is not None
        return CallingTurn(
            agent=handle,
            session=SessionRef(Scope(handle, "", principal.id), context),
            session_key=f"agent:{slug}:a2a:{context}",
            task_id="turn",
            principal=principal,
            chain=(found.agent.mark,),
        )

    async def get(self, slug: str, task_id: str, principal: Principal = ALICE) -> Task:
        found = self.callee(slug)
        assert found is not None
        caller = Caller(principal=principal)
        return _decode(await found.service.get(found.agent, caller, GetTaskRequest(id=task_id)))

    async def cancel(self, slug: str, task_id: str, principal: Principal = ALICE) -> Task:
        found = self.callee(slug)
        assert found is not None
        caller, request = Caller(principal=principal), CancelTaskRequest(id=task_id)
        return _decode(await found.service.cancel(found.agent, caller, request))

    async def entries(
        self, slug: str, context: str, principal: Principal = ALICE
    ) -> list[dict[str, Any]]:
        """What was delivered to the session, in its order."""
        return [
            msgspec.json.decode(text_of(each.parts))
            for each in await self.entry_messages(slug, context, principal)
        ]

    async def entry_messages(
        self, slug: str, context: str, principal: Principal = ALICE
    ) -> list[Message]:
        session = SessionRef(Scope(f"acme/{slug}", "", principal.id), context)
        found = await latest_entries(self.store, session, limit=10_000)
        return [message for _, message in found]

    async def calls(self) -> list[CallRecord]:
        """All calls that the store knows, in the order in which they began."""
        records: list[Record] = [*await self.store.records(CALL, limit=10_000)]
        found = [decode_record(record.body) for record in records]
        return sorted(found, key=lambda each: (each.call.begun_ms, each.call.id))

    async def open(self) -> None:
        for runtime in self.runtimes:
            await runtime.open()
            for each in runtime.agents.values():
                each.mark = call_chain.mark_of("test", each.handle)
        await self.routing.open()

    async def vanish(self) -> None:
        """Be gone without a word, as after kill -9; the stores stay as they are."""
        for runtime in self.runtimes:
            runtime.runs.is_draining = True
            await runtime.runs.tasks.close()
            await runtime.due.close(grace_s=0)
            await runtime._housekeeping.close()
            if runtime._membership is not None:
                await runtime._membership.vanish()
        await self.routing.close()

    async def close(self) -> None:
        for runtime in self.runtimes:
            await runtime.close()
        await self.routing.close()


@asynccontextmanager
async def calling(functions: Mapping[str, Function], **options: Any) -> AsyncIterator[CallWorld]:
    world = CallWorld(functions, **options)
    await world.open()
    try:
        yield world
    finally:
        await world.close()


async def until(happened: Callable[[], Awaitable[Any]]) -> Any:
    """The first result that is not empty, for what other tasks of the loop bring about."""
    async with asyncio.timeout(10):
        found = await happened()
        while not found:
            await settle()
            found = await happened()
    return found
