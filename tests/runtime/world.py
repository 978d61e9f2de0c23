"""A runtime with a scripted agent, and the few words in which tests talk to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.model.calls import (
    Caller,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from trunkline.model.events import Entry
from trunkline.model.principal import EVERYTHING, Principal
from trunkline.model.values import (
    TERMINAL,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    text_of,
)
from trunkline.ports.backend import Backend
from trunkline.ports.cluster import Cluster
from trunkline.ports.gate import Gate
from trunkline.ports.store import Scope, Store
from trunkline.runtime.agents import PublishedAgent
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.fanout import Item, Opening, Reply, Subscription
from trunkline.runtime.participants import Rejoin
from trunkline.runtime.runtime import Runtime
from trunkline.settings.profiles import preset
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, ScriptedBackend, SequentialIds, settle

T = TypeVar("T")
HANDLE = "test/agent"
ALICE = Caller(principal=Principal(id="alice", grants=EVERYTHING))
BOB = Caller(principal=Principal(id="bob", grants=EVERYTHING))
SCOPE = Scope(HANDLE, "", "alice")

_decode = msgspec.json.Decoder(Task).decode
_decode_message = msgspec.json.Decoder(Message).decode


class World:
    def __init__(
        self,
        *,
        store: Store | None = None,
        clock: FakeClock | None = None,
        backend: Backend | None = None,
        direct: bool = False,
        resumable: bool = False,
        node: str = "id",
        stream_buffer: int = 1000,
        heartbeat_s: float = 15.0,
        preset_name: str = "standard",
        cluster: Cluster | None = None,
        participants: Mapping[str, Rejoin] | None = None,
        gate: Gate | None = None,
        due_kinds: Sequence[DueKind] = (),
        **profile: Any,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = store if store is not None else MemoryStore(self.clock)
        self.scripted = ScriptedBackend(clock=self.clock, direct=direct, resumable=resumable)
        self.agent = PublishedAgent(
            handle=HANDLE, backend=backend or self.scripted, profile=preset(preset_name, **profile)
        )
        self.runtime = Runtime(
            store=self.store,
            clock=self.clock,
            ids=SequentialIds(node),
            agents=[self.agent],
            stream_buffer=stream_buffer,
            heartbeat_s=heartbeat_s,
            cluster=cluster,
            participants=participants,
            gate=gate,
            due_kinds=due_kinds,
        )
        self.service = self.runtime.service
        self.callers = BackgroundTasks("callers")
        self._messages = 0

    @property
    def gates(self) -> Any:
        return self.scripted.gates

    def message(self, text: str, *, context: str = "", task: str = "", id: str = "") -> Message:
        self._messages += 1
        return Message(
            message_id=id or f"m-{self._messages}",
            context_id=context,
            task_id=task,
            role=Role.USER,
            parts=(Part(text=text),),
        )

    def request(
        self,
        text: str,
        *,
        context: str = "",
        task: str = "",
        id: str = "",
        now: bool = False,
        history_length: int | None = None,
        modes: tuple[str, ...] = (),
    ) -> SendMessageRequest:
        return SendMessageRequest(
            message=self.message(text, context=context, task=task, id=id),
            configuration=SendMessageConfiguration(
                return_immediately=now,
                history_length=history_length,
                accepted_output_modes=modes,
            ),
        )

    async def send(self, text: str, *, key: str = "", **options: Any) -> Task:
        """A blocking send, for an answer that is a task."""
        answer = await self.service.send(self.agent, caller(key), self.request(text, **options))
        assert not isinstance(answer, Reply)
        return _decode(answer.task)

    async def ask(self, text: str, *, key: str = "", **options: Any) -> Message:
        """A blocking send, for an answer that is a message alone."""
        answer = await self.service.send(self.agent, caller(key), self.request(text, **options))
        assert isinstance(answer, Reply)
        return _decode_message(answer.message)

    async def submit(self, text: str, **options: Any) -> Task:
        return await self.send(text, now=True, **options)

    def soon(self, coroutine: Awaitable[T]) -> "asyncio.Future[T]":
        """Call it in the background."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def call() -> None:
            try:
                result = await coroutine
            except Exception as error:  # noqa: BLE001 - for whoever awaits the answer
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self.callers.spawn(call(), name="caller")
        return answer

    async def stream(self, text: str, *, key: str = "", **options: Any) -> "Reading":
        request = self.request(text, **options)
        return Reading(await self.service.stream(self.agent, caller(key), request))

    async def follow(
        self, task_id: str, *, after: int | None = None, closes_on_input: bool = False
    ) -> "Reading":
        return Reading(
            await self.service.subscribe(
                self.agent,
                ALICE,
                SubscribeToTaskRequest(id=task_id),
                last_seq=after,
                closes_on_input_required=closes_on_input,
            )
        )

    async def get(self, task_id: str, history_length: int | None = None) -> Task:
        request = GetTaskRequest(id=task_id, history_length=history_length)
        return _decode(await self.service.get(self.agent, ALICE, request))

    async def state(self, task_id: str) -> TaskState:
        return (await self.get(task_id)).status.state

    async def cancel(self, task_id: str) -> Task:
        return _decode(await self.service.cancel(self.agent, ALICE, CancelTaskRequest(id=task_id)))

    async def listed(self, **filters: Any) -> tuple[Task, ...]:
        answer = await self.service.list(self.agent, ALICE, ListTasksRequest(**filters))
        return tuple(map(_decode, answer.tasks))

    async def page(self, **filters: Any) -> tuple[tuple[Task, ...], str]:
        """One page of a list, and the token of the next."""
        answer = await self.service.list(self.agent, ALICE, ListTasksRequest(**filters))
        return tuple(map(_decode, answer.tasks)), answer.next_page_token

    async def journal(self, task_id: str) -> tuple[Entry, ...]:
        return await self.store.entries(task_id, after=0, limit=100_000)

    async def states(self, task_id: str) -> list[TaskState]:
        """Every status that the journal of the task shows, in order."""
        return [
            state for entry in await self.journal(task_id) if (state := state_of(entry)) is not None
        ]

    async def ended(self, task_id: str) -> Task:
        """The task once it has ended."""
        async with asyncio.timeout(10):
            reading = await self.follow(task_id, after=0)
            await reading.all()
        task = await self.get(task_id)
        assert task.status.state in TERMINAL
        return task

    async def sweep(self) -> None:
        """Have retention look at the agent now."""
        await self.runtime.retention.sweep(self.agent)

    async def open(self) -> None:
        await self.runtime.open()

    async def vanish(self) -> None:
        """Be gone without a word, as after kill -9; the store stays as it is."""
        self.runtime.runs.is_draining = True
        await self.runtime.runs.tasks.close()
        await self.runtime.due.close(grace_s=0)
        await self.runtime._housekeeping.close()
        if self.runtime._membership is not None:
            await self.runtime._membership.vanish()
        await self.callers.close()

    async def close(self) -> None:
        await self.callers.close()
        await self.runtime.close()


class Reading:
    """A reader of a stream: what it got, in order."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.items: list[Item] = []

    async def read(self) -> list[Item]:
        """One batch."""
        items = await self.subscription.next()
        self.items += items
        return items

    async def all(self) -> list[Item]:
        """To the end, then leave."""
        while await self.read():
            pass
        self.subscription.close()
        return self.items

    def close(self) -> None:
        self.subscription.close()

    @property
    def seqs(self) -> list[int]:
        return [item.seq for item in self.items if isinstance(item, Entry | Opening)]

    @property
    def entries(self) -> list[Entry]:
        return [item for item in self.items if isinstance(item, Entry)]

    @property
    def task_id(self) -> str:
        first = self.items[0]
        if isinstance(first, Opening):
            return opened(first).id
        assert isinstance(first, Entry)
        assert isinstance(first.public, Task)
        return first.public.id


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    """A world that is open, and that leaves nothing behind."""
    made = World(**options)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
    await settle()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"left behind: {left}"


def caller(key: str = "") -> Caller:
    return (
        Caller(principal=Principal(id="alice", grants=EVERYTHING), idempotency_key=key)
        if key
        else ALICE
    )


def opened(opening: Opening) -> Task:
    return _decode(opening.task)


def state_of(entry: Entry) -> TaskState | None:
    event = entry.public
    return event.status.state if hasattr(event, "status") else None


def said(task: Task) -> str:
    """The text of the status message."""
    return text_of(task.status.message.parts) if task.status.message is not None else ""


def place(task: Task) -> int | None:
    """Where the task says that it is in the queue."""
    return task.metadata["queue"]["position"] if task.metadata is not None else None


def next_morning() -> FakeClock:
    """A clock for the next process, when no lease of the one before holds any more."""
    return FakeClock(FakeClock().now_ms() + 8 * 3600 * 1000)
