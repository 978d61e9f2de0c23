"""Random schedules on two and three nodes: requests at any node, and nodes that stop, stall, die.

Each schedule is a number. A failure names it, and `run(number)` plays it again.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.cluster.nodes import Nodes
from tests.runtime.world import World, caller, opened

from trunkline.background import BackgroundTasks
from trunkline.model.errors import TrunklineError
from trunkline.model.events import Entry
from trunkline.model.outputs import DirectReply, Final, Output, Question, Text
from trunkline.model.values import INTERRUPTED, TERMINAL, Part, Task, TaskState, text_of
from trunkline.ports.backend import TurnRequest
from trunkline.ports.cluster import Times
from trunkline.runtime.fanout import CutOff, NoReply, Opening, Reply
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore

# Long runs of lines that other tests cover: traced, they take more than twice as long.
pytestmark = pytest.mark.no_cover

CONTEXTS = ("red", "green", "blue", "")
STEPS = 40


class QuickClock(FakeClock):
    """Wakes the sleepers of a quarter of a second together."""

    async def advance(self, seconds: float) -> None:
        until = self._elapsed_s + seconds
        while self._elapsed_s < until:
            self._elapsed_s = min(self._elapsed_s + 0.25, until)
            while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
                wake = self._sleepers.pop(0)[2]
                self._sleepers.sort()
                if not wake.done():
                    wake.set_result(None)
            await settle()


class Turn:
    def __init__(self, agent: "Agent", request: TurnRequest) -> None:
        self.agent = agent
        self.request = request
        self.is_over = False
        self.began_at = agent.clock.monotonic()
        self.runs_once = not agent.is_pure and not request.is_resumed

    @property
    def is_stale(self) -> bool:
        """Whether its node has died, or has stalled for so long that its lanes may be gone."""
        agent = self.agent
        stalls = (
            agent.node.is_paused
            and agent.clock.monotonic() - agent.paused_at >= Times().trust_s - 1
        )
        return agent.node.is_dead or stalls or agent.stalled_until > self.began_at


class Ledger:
    """All turns that any agent ever began."""

    def __init__(self, limit: int, per_node: int) -> None:
        # The maximum number of turns at once, at all nodes and at each; 0 for no limit.
        self.limit = limit
        self.per_node = per_node
        self.turns: list[Turn] = []
        self.faults: list[str] = []

    def begin(self, turn: Turn) -> None:
        request = turn.request
        for other in self.turns:
            if other.is_over or other.is_stale or other.request.context_id != request.context_id:
                continue
            self.faults.append(f"{request.run_id} began beside {other.request.run_id}")
        self.turns.append(turn)
        at_once = self.under_way()
        here = [each for each in at_once if each.agent is turn.agent]
        if len(at_once) > self.limit > 0 or len(here) > self.per_node > 0:
            names = [each.request.run_id for each in at_once]
            self.faults.append(f"{len(at_once)} turns at once, {len(here)} at one node: {names}")

    def under_way(self) -> list[Turn]:
        return [turn for turn in self.turns if not turn.is_over and not turn.is_stale]


class Agent:
    """An agent that takes its time, and makes no step while its node stalls."""

    def __init__(
        self, clock: FakeClock, ledger: Ledger, node: Node, *, kind: str, direct: bool
    ) -> None:
        self.is_pure = kind == "pure"
        self.can_resume = kind == "resumes"
        self.may_reply_directly = direct
        self.clock = clock
        self.ledger = ledger
        self.node = node
        self.paused_at = 0.0
        self.stalled_until = -1.0

    async def start(self, request: TurnRequest) -> AsyncIterator[Output]:
        turn = Turn(self, request)
        self.ledger.begin(turn)
        try:
            for word in text_of(request.message.parts).split():
                if word == "reply":
                    yield DirectReply((Part(text="at once"),))
                    return
                if word == "ask":
                    yield Question((Part(text="Which one?"),))
                    return
                await self.clock.sleep(float(word))
                await self.node.awake()
                yield Text(f"waited {word} ")
            yield Final((Part(text="done"),))
        finally:
            turn.is_over = True

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


class Reader:
    """Follows a task at one node after the other, as a client that reconnects."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.seqs: list[int] = []
        # Why the last stream ended; empty while it goes on.
        self.end = ""
        # The state in the last status that the reader got.
        self.state: TaskState | None = None

    async def read(self, world: World, *, batches: int, opening: str = "") -> None:
        """Read until the stream ends, or for a while. `opening` is a message that begins it."""
        try:
            if opening:
                reading = await world.stream(opening)
            else:
                after = self.seqs[-1] if self.seqs else 0
                reading = await world.follow(self.task_id, after=after)
        except TrunklineError as error:
            self.end = error.message
            return
        try:
            while batches and (items := await reading.read()):
                batches -= 1
                self._take(items, may_be_queued=bool(opening))
            if not batches or getattr(world.store, "is_dead", False):
                # A process that was killed gives no reason, and its client reconnects.
                self.end = self.end or "left"
            elif not self.end:
                # The stream of a message ends where the agent asks.
                self.end = "asked" if opening and self.state in INTERRUPTED else "silence"
        finally:
            reading.close()

    def _take(self, items: list[Any], *, may_be_queued: bool) -> None:
        for item in items:
            if isinstance(item, Entry):
                self.seqs.append(item.seq)
                self.task_id = self.task_id or task_of(item)
                self.state = _state(item) or self.state
                if self.state in TERMINAL:
                    self.end = self.state.value
            elif isinstance(item, CutOff):
                self.end = item.reason
            elif isinstance(item, Reply | NoReply):
                self.end = "reply"
            elif isinstance(item, Opening):
                assert may_be_queued, "a replay became a snapshot"
                assert not self.seqs, "a snapshot came late"
                self.task_id = opened(item).id
                self.seqs = list(range(1, item.seq + 1))


def task_of(entry: Entry) -> str:
    event = entry.public
    return event.id if isinstance(event, Task) else event.task_id


def _state(entry: Entry) -> TaskState | None:
    event = entry.public
    return event.status.state if hasattr(event, "status") else None


class Schedule:
    def __init__(self, number: int) -> None:
        self.number = number
        # Not a secret: the same number gives the same schedule.
        self.random = random.Random(number)
        self.clock = QuickClock()
        # Every fourth schedule has no limit over all nodes, every second none for each.
        limit, per_node = number % 4, (0, 1, 0, 2)[number // 4 % 4]
        self.ledger = Ledger(limit, per_node)
        loss = self.random.choice([0, 0, 0.2, 1])
        store = SharedStore(
            self.clock,
            rounds=lambda: self.random.choice([0, 0, 0, 1, 2, 5]),
            loses_notice=lambda: self.random.random() < loss,
        )
        self.may_reply_directly = self.random.random() < 0.3
        self.kind = self.random.choice(["effects", "effects", "pure", "resumes"])
        restart = ("resume_queued", "resume_running")
        if self.kind == "pure":
            restart = ("resume_queued", "retry_running")
        self.nodes = Nodes(
            0,
            clock=self.clock,
            store=store,
            on_restart=restart,
            max_concurrency=limit,
            max_concurrency_per_node=per_node,
        )
        self.agents: list[Agent] = []
        self.tasks: dict[str, Task] = {}
        # For each message how often it was answered with a task.
        self.sent: Counter[str] = Counter()
        self.replied: set[str] = set()
        self.sent_as: dict[str, str] = {}
        self.keyed: list[tuple[str, Any]] = []
        self.readers: list[Reader] = []
        self.calls: list[tuple[Node, asyncio.Task[Any], Reader | None]] = []
        self.clients = BackgroundTasks("clients")

    async def add(self) -> None:
        node = self.nodes.store.node()
        agent = Agent(self.clock, self.ledger, node, kind=self.kind, direct=self.may_reply_directly)
        world = self.nodes.add(node, backend=agent)
        self.agents.append(agent)
        await world.open()

    @property
    def alive(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes.nodes) if not node.is_dead]

    @property
    def awake(self) -> list[int]:
        return [number for number in self.alive if not self.nodes.nodes[number].is_paused]

    @property
    def is_busy(self) -> bool:
        lanes = [self.nodes.worlds[number].agent.lanes for number in self.alive]
        return bool(self.ledger.under_way()) or any(each.busy for each in lanes)

    def any_world(self) -> tuple[Node, World]:
        # A client reaches a node that stalls as well, and gets no answer for a while.
        number = self.random.choice(self.alive)
        return self.nodes.nodes[number], self.nodes.worlds[number]

    def call(self, node: Node, coroutine: Any, reader: Reader | None = None) -> None:
        self.calls.append((node, self.clients.start(coroutine, name="client"), reader))

    def leave(self, call: "tuple[Node, asyncio.Task[Any], Reader | None]") -> None:
        """Let a client hang up."""
        _, calling, reader = call
        # Once: the reader may have reconnected by now.
        if not calling.done() and not calling.cancelling():
            calling.cancel()
            if reader is not None:
                reader.end = "left"

    async def send(self, world: World, text: str, **options: Any) -> None:
        message_id = f"m{self.number}-{len(self.sent)}"
        self.sent[message_id] = 0
        key = message_id if self.random.random() < 0.3 else ""
        request = world.request(text, id=message_id, **options)
        if key:
            self.keyed.append((message_id, request))
        await self._send(world, message_id, key, request)

    async def repeat(self, world: World) -> None:
        """Send an earlier request again, with its key."""
        message_id, request = self.random.choice(self.keyed)
        await self._send(world, message_id, message_id, request)

    async def _send(self, world: World, message_id: str, key: str, request: Any) -> None:
        answer = await world.service.send(world.agent, caller(key), request)
        if isinstance(answer, Reply):
            self.replied.add(message_id)
            return
        task = msgspec.json.decode(answer.task, type=Task)
        self.tasks[task.id] = task
        assert self.sent_as.setdefault(message_id, task.id) == task.id, "one key, two tasks"
        self.sent[message_id] = 1

    def script(self) -> str:
        words = [
            self.random.choice(["0.25", "1", "3", "8"]) for _ in range(self.random.randint(0, 3))
        ]
        end = self.random.choice(["", "", "ask", "reply"])
        return " ".join([*words, end]).strip() or "0.5"

    async def step(self) -> None:
        choice = self.random.random()
        node, world = self.any_world()
        known = sorted(self.tasks)
        if choice < 0.05 and self.keyed:
            self.call(node, self.repeat(world))
        elif choice < 0.1:
            reader = Reader("")
            self.readers.append(reader)
            opened = reader.read(world, batches=-1, opening=self.script())
            self.call(node, opened, reader)
        elif choice < 0.15 and self.calls:
            self.leave(self.random.choice(self.calls))
        elif choice < 0.4:
            context = self.random.choice(CONTEXTS)
            now = self.random.random() < 0.5
            self.call(node, self.send(world, self.script(), context=context, now=now))
        elif choice < 0.48 and known:
            task = self.random.choice(known)
            self.call(node, self.send(world, self.script(), task=task, now=True))
        elif choice < 0.56 and known:
            self.call(node, world.cancel(self.random.choice(known)))
        elif choice < 0.72 and known:
            reader = Reader(self.random.choice(known))
            self.readers.append(reader)
            batches = self.random.choice([1, 2, -1, -1])
            self.call(node, reader.read(world, batches=batches), reader)
        elif choice < 0.8 and self.readers:
            left = [each for each in self.readers if each.end == "left" and each.task_id]
            if left:
                reader = self.random.choice(left)
                reader.end = ""
                self.call(node, reader.read(world, batches=-1), reader)
        elif choice < 0.9:
            await self.disturb()
        await self.clock.advance(self.random.choice([0, 0, 0.25, 1, 3]))

    async def disturb(self) -> None:
        number = self.random.choice(self.alive)
        node = self.nodes.nodes[number]
        what = self.random.random()
        if node.is_paused:
            self.resume(number)
        elif what < 0.5:
            node.pause()
            self.agents[number].paused_at = self.clock.monotonic()
        elif what < 0.75:
            await self.nodes.kill(number)
            await self.add()
        elif len(self.awake) > 1:
            await self.add()
            await self.nodes.worlds[number].close()
            node.kill()

    def resume(self, number: int) -> None:
        agent, now = self.agents[number], self.clock.monotonic()
        if now - agent.paused_at >= Times().trust_s - 1:
            agent.stalled_until = now
        self.nodes.nodes[number].resume()

    async def play(self) -> None:
        for _ in range(self.random.choice([2, 3])):
            await self.add()
        for _ in range(STEPS):
            await self.step()
        for number in self.alive:
            if self.nodes.nodes[number].is_paused:
                self.resume(number)
        await self.clock.advance(40)
        for _ in range(100):
            if not self.is_busy:
                break
            await self.clock.advance(20)
        assert not self.is_busy, "turns wait for ever"
        await self.clock.advance(5)
        await self.check()
        await self.clients.close()
        await self.nodes.close()

    async def check(self) -> None:
        world = self.nodes.worlds[self.alive[0]]
        assert not self.ledger.faults, self.ledger.faults
        begun = Counter(turn.request.run_id for turn in self.ledger.turns if turn.runs_once)
        assert not [run for run, times in begun.items() if times > 1], begun
        messages: Counter[str] = Counter()
        for task in await self._all(world):
            journal = await world.journal(task.id)
            assert [entry.seq for entry in journal] == list(range(1, len(journal) + 1))
            assert task.status.state in TERMINAL | INTERRUPTED, task
            messages.update(m.message_id for m in task.history if m.message_id in self.sent)
            self.tasks.pop(task.id, None)
        assert not self.tasks, f"acknowledged and lost: {self.tasks}"
        assert not [each for each, times in messages.items() if times > 1], messages
        assert not self.replied & messages.keys(), "answered without a task, and with one"
        for message_id, answers in self.sent.items():
            assert messages[message_id] >= answers, f"{message_id} was answered and is lost"
        await self._check_readers(world)
        for node, call, reader in self.calls:
            if not call.done() and not node.is_dead:
                assert reader is not None, "a request has no answer"
                assert (await world.get(reader.task_id)).status.state in INTERRUPTED
            if call.done() and not call.cancelled() and (error := call.exception()) is not None:
                assert isinstance(error, TrunklineError), error
        for epochs in self.nodes.store.epochs.values():
            assert epochs == sorted(set(epochs))
        assert not any(self.nodes.store.slots_of("test/agent").values())
        for number in self.alive:
            runtime = self.nodes.worlds[number].runtime
            assert runtime.ownership is not None
            assert not runtime.ownership.held, runtime.ownership.held
            assert not runtime.runs.running
            followed = {reader.task_id for reader in self.readers if not reader.end}
            assert {live.task_id for live in runtime.registry.all()} <= followed
            assert not len(runtime.keys)

    async def _check_readers(self, world: World) -> None:
        dead = {reader for node, _, reader in self.calls if node.is_dead}
        for reader in self.readers:
            assert reader.seqs == list(range(1, len(reader.seqs) + 1)), reader.seqs
            assert reader.end != "silence", f"{reader.task_id} ended without a reason"
            if not reader.seqs:
                continue
            task = await world.get(reader.task_id)
            last = len(await world.journal(reader.task_id))
            assert reader.seqs[-1] <= last, (reader.seqs, last)
            if reader.end in {state.value for state in TERMINAL}:
                assert reader.seqs[-1] == last, (reader.seqs, last)
            elif not reader.end and reader not in dead:
                # Nothing is left to come but the answer of the caller.
                assert task.status.state in INTERRUPTED, (reader.task_id, task.status.state)
                assert reader.seqs[-1] == last, (reader.seqs, last)

    async def _all(self, world: World) -> list[Task]:
        found: list[Task] = []
        token = ""
        while True:
            tasks, token = await world.page(page_token=token, page_size=100)
            found += tasks
            if not token:
                return found


async def run(number: int) -> None:
    await Schedule(number).play()


@pytest.mark.parametrize("block", range(6))
async def test_random_schedules(block: int) -> None:
    for number in range(block * 10, block * 10 + 10):
        await _named(number)


async def test_a_reader_that_comes_during_a_takeover_gets_the_rest() -> None:
    """Its stream once ended without a reason, because it took the task for an orphan."""
    await _named(1552)


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
@pytest.mark.timeout(600)
async def test_two_thousand_random_schedules(block: int) -> None:
    for number in range(1000 + block * 100, 1100 + block * 100):
        await _named(number)


async def _named(number: int) -> None:
    try:
        await run(number)
    except Exception as error:
        raise AssertionError(f"schedule {number}: {error!r}") from error
