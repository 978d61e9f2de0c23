"""A task that another gateway began goes on here as the same task, and its message runs once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.runtime.deliveries import SENT_MS, adopt, given, sender
from tests.runtime.gates import QuickGate, RecordingGate
from tests.runtime.stores import AheadStore, SlowReads
from tests.runtime.test_gate import BUDGET, USED_UP, spends, used
from tests.runtime.world import ALICE, BOB, SCOPE, World, next_morning, said, world

from trunkline.engine.admission import NO_CONTENT, MessageRules
from trunkline.model.calls import Refusal
from trunkline.model.errors import (
    Conflict,
    IdempotencyConflict,
    PermissionDenied,
    StoreUnusable,
    TaskNotFound,
    TooManyRequests,
    Unavailable,
)
from trunkline.model.events import TurnOptions
from trunkline.model.large_values import MARK
from trunkline.model.principal import Grant, Principal
from trunkline.model.values import Part, TaskState, text_of
from trunkline.ports.gate import Admission, Attempt
from trunkline.ports.records import Add
from trunkline.ports.store import Append, Scope, Settled, Store, StoredTask
from trunkline.runtime.given_tasks import GivenTask
from trunkline.runtime.idempotency import digest_of
from trunkline.stores.memory import MemoryStore
from trunkline.testing import settle

COMPLETED, REJECTED, FAILED = TaskState.COMPLETED, TaskState.REJECTED, TaskState.FAILED


def heard(w: World) -> list[str]:
    return [text_of(turn.message.parts) for turn in w.scripted.turns]


async def test_the_first_entry_is_kept_byte_for_byte(make_store: Callable[[], Store]) -> None:
    async with world(store=make_store()) as w:
        task = given("say hi")
        await adopt(w, task)
        ended = await w.ended("given-1")
        first, *_ = journal = await w.journal("given-1")
        assert (first.seq, first.kind, first.body) == (1, "task.1", bytes(task.entry))
        assert [entry.seq for entry in journal] == list(range(1, len(journal) + 1))
        assert ended.status.state is COMPLETED
        assert ended.context_id == "given-1"
        assert heard(w) == ["say hi"]
        stored = await w.store.get(SCOPE, "given-1")
        assert stored is not None
        assert stored.created_ms == SENT_MS
        assert [each.id for each in await w.listed()] == ["given-1"]


async def test_options_of_the_request_reach_the_agent() -> None:
    options = TurnOptions(accepted_output_modes=("text/plain",), metadata={"big": 1.0})
    task = given("say hi", options=options)
    async with world() as w:
        await adopt(w, task)
        await w.ended("given-1")
        assert (await w.journal("given-1"))[0].body == bytes(task.entry)
        (turn,) = w.scripted.turns
        assert turn.accepted_output_modes == ("text/plain",)
        assert turn.metadata == {"big": 1.0}


async def test_a_reader_goes_on_behind_the_first_entry() -> None:
    """It has read the first entry where the task began."""
    async with world() as w:
        await adopt(w, given("say one; wait gate; say two"))
        reading = await w.follow("given-1", after=1)
        w.gates.open("gate")
        await reading.all()
        assert reading.seqs == list(range(2, reading.seqs[-1] + 1))


async def test_messages_of_a_context_run_in_the_order_of_their_adoption() -> None:
    async with world() as w:
        await w.submit("wait gate", context="c")
        for number in (3, 1, 2):
            # The clocks of other gateways may differ.
            sent_ms = SENT_MS - number * 1000
            await adopt(w, given(f"say {number}", id=f"g-{number}", context="c", sent_ms=sent_ms))
        last = w.soon(w.send("say last", context="c"))
        await adopt(w, given("say apart", id="apart"))
        await w.ended("apart")
        assert (await w.get("g-1")).status.state is TaskState.SUBMITTED
        w.gates.open("gate")
        await last
        assert heard(w) == ["wait gate", "say apart", "say 3", "say 1", "say 2", "say last"]


async def test_messages_that_wait_run_in_that_order_after_a_restart(
    make_store: Callable[[], Store],
) -> None:
    w = World(store=make_store(), node="one")
    await w.open()
    await w.submit("wait gate", context="c")
    for number in (3, 1, 2):
        sent_ms = w.clock.now_ms() - number * 1000
        await adopt(w, given(f"say {number}", id=f"g-{number}", context="c", sent_ms=sent_ms))
    waiting = w.soon(w.submit("say last", context="c"))
    await waiting
    await w.vanish()
    await w.store.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as again:
        for number in (3, 1, 2):
            await again.ended(f"g-{number}")
        await again.ended((await waiting).id)
        assert heard(again) == ["say 3", "say 1", "say 2", "say last"]


async def test_a_task_that_is_known_is_not_run_again(make_store: Callable[[], Store]) -> None:
    async with world(store=make_store(), node="one") as w:
        await adopt(w, given("wait gate"))
        await w.gates.reached("gate")
        await adopt(w, given("wait gate"))
        w.gates.open("gate")
        await w.ended("given-1")
        before = await w.journal("given-1")
        assert w.runtime.registry.in_memory("given-1") is None
        await adopt(w, given("wait gate"))
        assert await w.journal("given-1") == before
        assert len(w.scripted.turns) == 1
    async with world(store=make_store(), node="two", clock=next_morning()) as again:
        await adopt(again, given("wait gate"))
        assert await again.journal("given-1") == before
        assert not again.scripted.turns


async def test_a_second_attempt_waits_for_the_commit_of_the_first() -> None:
    store = AheadStore()
    async with world(store=store) as w:
        store.is_held = True
        attempts = [w.soon(adopt(w, given("say hi"))) for _ in range(3)]
        await settle()
        assert not any(each.done() for each in attempts)
        store.is_held = False
        store.tell()
        await asyncio.gather(*attempts)
        await w.ended("given-1")
        assert heard(w) == ["say hi"]


async def test_of_two_attempts_at_a_slow_gate_one_runs() -> None:
    gate = RecordingGate()
    gate.held["say hi"] = asyncio.Event()
    async with world(gate=gate) as w:
        attempts = [w.soon(adopt(w, given("say hi"))) for _ in range(3)]
        await settle()
        gate.held["say hi"].set()
        await asyncio.gather(*attempts)
        await w.ended("given-1")
        assert heard(w) == ["say hi"]
    assert gate.is_balanced()
    assert gate.states.count(REJECTED) == 2


class SlowGate(RecordingGate):
    """Each message waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.go = [asyncio.Event(), asyncio.Event()]

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        decision = await super().admit(attempt)
        await self.go[len(self.admitted) - 1].wait()
        return decision


async def test_an_attempt_that_was_overtaken_finds_the_task_in_the_store(
    make_store: Callable[[], Store],
) -> None:
    gate = SlowGate()
    async with world(gate=gate, store=make_store()) as w:
        attempts = [w.soon(adopt(w, given("say hi"))) for _ in range(2)]
        assert w.runtime.adoptions.gate is not None
        queues = w.runtime.adoptions.gate._queues
        while [queue.users for queue in queues.values()] != [2]:
            await settle()
        gate.go[0].set()
        (first,), (second,) = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        await first
        before = await w.ended("given-1")
        await settle()
        assert w.runtime.registry.in_memory("given-1") is None
        gate.go[1].set()
        await second
        assert await w.get("given-1") == before
        assert heard(w) == ["say hi"]
    assert gate.is_balanced()


async def test_a_commit_between_two_reads_is_no_task_of_another_caller() -> None:
    store = SlowReads()
    async with world(store=store) as w:
        store.hold(1)
        slow = w.soon(adopt(w, given("say hi")))
        await settle()
        await adopt(w, given("say hi"))
        await w.ended("given-1")
        assert w.runtime.registry.in_memory("given-1") is None
        store.let_go()
        await slow
        assert heard(w) == ["say hi"]


async def test_the_id_of_a_task_of_another_caller_is_a_conflict(
    make_store: Callable[[], Store],
) -> None:
    async with world(store=make_store()) as w:
        await adopt(w, given("wait gate"))
        with pytest.raises(Conflict):
            await adopt(w, given("say mine"), by=BOB)
        w.gates.open("gate")
        await w.ended("given-1")
        # From now on the store alone has it.
        assert w.runtime.registry.in_memory("given-1") is None
        with pytest.raises(Conflict):
            await adopt(w, given("say mine"), by=BOB)
        with pytest.raises(Conflict):
            await adopt(w, given("say mine"), by=replace(ALICE, tenant="other"))
        assert heard(w) == ["wait gate"]


NARROW = Principal(id="alice", grants=(Grant("test/agent", frozenset({"GetTask"})),))


@pytest.mark.parametrize(
    ("task", "profile", "reason", "text"),
    [
        (
            given(parts=(Part(data={}, media_type="image/png"),)),
            {},
            "content_type_not_supported",
            "image/png",
        ),
        (
            given(parts=(Part(raw=b"x"),)),
            {"files": "reject"},
            "content_type_not_supported",
            "message.parts[0]",
        ),
        (given(message_id="m" * 300), {}, "invalid_params", "message.messageId"),
        (given(task="another"), {}, "invalid_params", "message.taskId"),
        (given(" "), {"message_checks": "lenient"}, "no_content", NO_CONTENT),
        (
            given(context="c"),
            {"context_mode": "stateless", "stateless_context": "reject"},
            "invalid_params",
            "message.contextId",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("overflow", ["task", "error"])
async def test_a_message_that_is_refused_for_good_is_a_task_that_says_so(
    task: Any, profile: dict[str, Any], reason: str, text: str, overflow: str
) -> None:
    async with world(overflow=overflow, **profile) as w:
        w.agent.rules = MessageRules(("text/plain",), w.agent.profile)
        await adopt(w, task)
        await check_refused(w, task, reason, text)


async def check_refused(
    w: World, task: Any, reason: str, text: str, *, state: TaskState = REJECTED
) -> None:
    first, second = await w.journal("given-1")
    assert first.body == bytes(task.entry)
    ended = await w.get("given-1")
    assert ended.status.state is state
    assert text in said(ended)
    assert ended.status.message is not None
    assert ended.status.message.metadata is not None
    assert ended.status.message.metadata["reason"] == reason
    assert [message.message_id for message in ended.history][1:] == [
        ended.status.message.message_id
    ]
    assert not w.scripted.turns
    # A later attempt changes nothing.
    await adopt(w, task)
    assert await w.journal("given-1") == (first, second)
    assert len(w.runtime.registry) == 0
    assert len(w.runtime.keys) == 0


async def test_a_caller_without_the_grant_gets_a_task_that_says_so() -> None:
    gate = RecordingGate()
    async with world(gate=gate, overflow="error") as w:
        narrow = replace(sender(), principal=NARROW)
        task = given("say hi")
        await adopt(w, task, by=narrow)
        first, second = await w.journal("given-1")
        assert first.body == bytes(task.entry)
        assert (await w.get("given-1")).status.state is REJECTED
        await adopt(w, task, by=narrow)
        assert await w.journal("given-1") == (first, second)
    assert gate.reasons == ["operation_not_granted"]


async def test_a_refusal_has_the_state_of_the_profile() -> None:
    async with world(refusal_state="failed", files="reject") as w:
        await adopt(w, given(parts=(Part(raw=b"x"),)))
        assert (await w.get("given-1")).status.state is FAILED


@pytest.mark.parametrize("overflow", ["task", "error"])
@pytest.mark.parametrize(
    ("decision", "reason"),
    [(USED_UP, "budget_exhausted"), (PermissionDenied("The agent is paused"), "permission_denied")],
    ids=["refused", "raised"],
)
async def test_what_the_gate_refuses_is_a_task_that_says_why(
    decision: Any, reason: str, overflow: str
) -> None:
    gate = RecordingGate()
    gate.decision = decision
    async with world(gate=gate, overflow=overflow) as w:
        task = given("say hi")
        await adopt(w, task)
        await check_refused(w, task, reason, str(getattr(decision, "text", decision)))
    assert len(gate.recorded) == 1
    assert gate.is_balanced()


@pytest.mark.parametrize("overflow", ["task", "error"])
async def test_a_budget_that_others_used_up_first_is_one_too(
    make_store: Callable[[], Store], overflow: str
) -> None:
    """The store finds it in the commit."""
    gate = QuickGate()
    gate.decision = spends(1)
    async with world(gate=gate, store=make_store(), overflow=overflow) as w:
        await w.send("say first")
        w.scripted.turns.clear()
        task = given("say hi")
        await adopt(w, task)
        await check_refused(w, task, "budget_exhausted", USED_UP.text)
        assert await used(w.store) == 1
    assert gate.is_balanced()


async def test_a_budget_is_given_back_for_a_task_that_ends_in_the_queue() -> None:
    gate = QuickGate()
    gate.decision = replace(spends(9), returns=(Add(key=BUDGET, amount=-1, at_most=9),))
    async with world(gate=gate) as w:
        await w.submit("wait gate", context="c")
        await adopt(w, given("say hi", context="c"))
        assert await used(w.store) == 2
        await w.cancel("given-1")
        assert await used(w.store) == 1
        w.gates.open("gate")
    assert gate.is_balanced()


async def check_later(w: World, error: type[Exception] = Unavailable) -> None:
    """The task cannot be taken now, and leaves nothing."""
    task = given("say hi", id="later", context="c")
    with pytest.raises(error):
        await adopt(w, task, key="k")
    assert await w.journal("later") == ()
    with pytest.raises(TaskNotFound):
        await w.get("later")
    assert w.runtime.registry.in_memory("later") is None


async def check_now(w: World) -> None:
    task = given("say hi", id="later", context="c")
    await adopt(w, task, key="k")
    await w.ended("later")
    assert (await w.journal("later"))[0].body == bytes(task.entry)
    assert heard(w).count("say hi") == 1


@pytest.mark.parametrize("overflow", ["task", "error"])
async def test_a_full_queue_refuses_it_for_now(overflow: str) -> None:
    gate = RecordingGate()
    async with world(gate=gate, max_queue_per_context=1, overflow=overflow) as w:
        await w.submit("wait gate", context="c")
        queued = await w.submit("say queued", context="c")
        await check_later(w)
        assert len(gate.recorded) == 2
        w.gates.open("gate")
        await w.ended(queued.id)
        await check_now(w)
    assert gate.is_balanced()


async def test_an_agent_that_queues_nothing_refuses_it_while_it_works() -> None:
    async with world(busy="fail") as w:
        running = await w.submit("wait gate", context="c")
        await check_later(w)
        w.gates.open("gate")
        await w.ended(running.id)
        await check_now(w)


@pytest.mark.parametrize(
    "decision",
    [
        Refusal("rate_limited", "Too many", retry_after_s=7),
        TooManyRequests("Too many", retry_after_s=7),
        Unavailable("The store of the limits is away", retry_after_s=7),
        RuntimeError("the gate failed"),
    ],
    ids=["rate", "raised", "away", "broken"],
)
async def test_a_limit_that_passes_soon_refuses_it_for_now(decision: Any) -> None:
    gate = RecordingGate()
    gate.decision = decision
    async with world(gate=gate) as w:
        await check_later(w)
        gate.decision = Admission()
        await check_now(w)
    assert gate.is_balanced()


async def test_a_queue_that_fills_up_at_the_gate_refuses_it_for_now() -> None:
    gate = RecordingGate()
    gate.held["say hi"] = asyncio.Event()
    async with world(gate=gate, max_queue_per_context=1, context_mode="client") as w:
        await w.submit("wait gate", context="c")
        later = w.soon(check_later(w))
        await settle()
        # The queue of the caller holds the turns of all contexts, and the lane of the gate is one.
        w.agent.lanes.max_waiting = 0
        gate.held["say hi"].set()
        await later
        w.gates.open("gate")
    assert gate.is_balanced()
    assert REJECTED in gate.states


async def test_a_gateway_that_stops_takes_none() -> None:
    async with world() as w:
        w.runtime.stop_admitting()
        await check_later(w)


async def test_a_gateway_that_stops_while_it_waits_at_the_gate_takes_none() -> None:
    gate = RecordingGate()
    gate.held["say hi"] = asyncio.Event()
    async with world(gate=gate) as w:
        later = w.soon(check_later(w))
        await settle()
        w.runtime.stop_admitting()
        gate.held["say hi"].set()
        await later
    assert gate.is_balanced()


async def test_an_agent_that_was_withdrawn_takes_none() -> None:
    async with world() as w:
        await w.runtime.publishing.withdraw(w.agent.handle, grace_s=0)
        await check_later(w)


class FullStore(MemoryStore):
    is_full = False

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if not self.is_full:
            super().submit(appends)
            return
        for _, settled in appends:
            settled(StoreUnusable("no space left"))


async def test_a_store_that_takes_nothing_refuses_it_for_now() -> None:
    store, gate = FullStore(), RecordingGate()
    async with world(store=store, gate=gate) as w:
        store.is_full = True
        await check_later(w)
        store.is_full = False
        await w.clock.advance(5)
        await check_now(w)
    assert gate.is_balanced()


class Unreadable(MemoryStore):
    is_away = False

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        if self.is_away:
            raise StoreUnusable("the database is away")
        return await super().get(scope, task_id)


async def test_a_store_that_cannot_be_read_refuses_it_for_now() -> None:
    store = Unreadable()
    async with world(store=store) as w:
        store.is_away = True
        with pytest.raises(Unavailable):
            await adopt(w, given("say hi", id="later", context="c"), key="k")
        store.is_away = False
        await check_now(w)


async def test_a_repeat_with_the_key_gets_the_adopted_task(make_store: Callable[[], Store]) -> None:
    async with world(store=make_store(), node="one") as w:
        request = w.request("say hi", id="m")
        task = given("say hi", message_id="m", digest=digest_of(request))
        await adopt(w, task, key="k")
        assert (await w.send("say hi", id="m", key="k")).id == "given-1"
        await w.ended("given-1")
        assert (await w.send("say hi", id="m", key="k")).id == "given-1"
        with pytest.raises(IdempotencyConflict):
            await w.send("say something else", id="m", key="k")
    async with world(store=make_store(), node="two", clock=next_morning()) as again:
        assert (await again.send("say hi", id="m", key="k")).id == "given-1"
        assert not again.scripted.turns


async def test_a_repeat_gets_the_task_also_where_the_first_request_is_not_known() -> None:
    async with world() as w:
        await adopt(w, given("say hi", message_id="m"), key="k")
        assert (await w.send("say hi", id="m", key="k")).id == "given-1"
        await w.ended("given-1")
        assert (await w.send("say hi", id="m", key="k")).id == "given-1"
        assert heard(w) == ["say hi"]


async def test_a_profile_that_deduplicates_finds_it_by_the_message() -> None:
    async with world(deduplicate_messages=True) as w:
        await adopt(w, given("say hi", message_id="m"))
        assert (await w.send("say hi", id="m")).id == "given-1"
        await adopt(w, given("say hi", message_id="m"))
        await adopt(w, given("say hi", message_id="m", id="second"))
        assert (await w.get("second")).status.state is REJECTED
        await w.ended("given-1")
        assert heard(w) == ["say hi"]


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_message_whose_key_came_before_does_not_run_again(has_ended: bool) -> None:
    """It reached the agent, then the agent was away, and the client sent it again."""
    async with world() as w:
        first = w.soon(w.send("say hi; wait gate", id="m", key="k"))
        await w.gates.reached("gate")
        if has_ended:
            w.gates.open("gate")
            await first
        task = given("say hi; wait gate", message_id="m")
        await adopt(w, task, key="k")
        w.gates.open("gate")
        assert (await first).status.state is COMPLETED
        assert len(w.scripted.turns) == 1
        assert (await w.journal("given-1"))[0].body == bytes(task.entry)
        assert (await w.get("given-1")).status.state is REJECTED
        assert "was not run again" in said(await w.get("given-1"))
        # The key still leads to the first task.
        assert (await w.send("say hi; wait gate", id="m", key="k")).id == (await first).id
        await adopt(w, task, key="k")


async def test_an_answer_without_a_task_counts_as_well() -> None:
    async with world(direct=True) as w:
        await w.ask("reply hi", id="m", key="k")
        await adopt(w, given("reply hi", message_id="m"), key="k")
        assert "was not run again" in said(await w.get("given-1"))
        assert len(w.scripted.turns) == 1


async def test_a_key_that_was_used_for_another_request_refuses_it() -> None:
    async with world() as w:
        await w.send("say one", key="k")
        await adopt(w, given("say two", digest=b"another"), key="k")
        ended = await w.get("given-1")
        assert ended.status.state is REJECTED
        assert "use a new key" in said(ended)
        assert heard(w) == ["say one"]


async def test_a_request_whose_answer_was_lost_is_not_run_again(
    make_store: Callable[[], Store],
) -> None:
    w = World(store=make_store(), node="one", direct=True)
    await w.open()
    asking = w.soon(w.ask("wait gate; reply hi", id="m", key="k"))
    await w.gates.reached("gate")
    await w.vanish()
    assert not asking.done()
    await w.store.close()
    async with world(store=make_store(), node="two", direct=True, clock=next_morning()) as again:
        await adopt(again, given("wait gate; reply hi", message_id="m"), key="k")
        ended = await again.get("given-1")
        assert ended.status.state is FAILED
        assert "its answer was lost" in said(ended)
        # A repeat gets this task from now on.
        assert (await again.send("wait gate; reply hi", id="m", key="k")).id == "given-1"
        assert not again.scripted.turns


TEXT = 'Large "and" ünïcode ✓.\n' * 20_000


@pytest.mark.parametrize("options", [None, TurnOptions(metadata={"a": 1})], ids=["bare", "options"])
async def test_a_large_text_is_kept_apart_and_read_whole(
    make_store: Callable[[], Store], options: TurnOptions | None
) -> None:
    task = given(parts=(Part(text="wait gate"), Part(text=TEXT)), options=options)
    store = make_store()
    w = World(store=store, node="one")
    await w.open()
    await w.submit("wait gate", context="given-1")
    await adopt(w, task)
    first, *_ = await w.journal("given-1")
    if store.keeps_large_values:
        assert MARK in first.body
        assert len(first.body) < 2000
    else:
        assert first.body == bytes(task.entry)
    assert await read_whole(w, first.public_body) == msgspec.json.decode(event_of(task))
    await w.vanish()
    await w.store.close()
    async with world(store=make_store(), node="two", clock=next_morning()) as again:
        again.gates.open("gate")
        await again.ended("given-1")
        assert [part.text for part in again.scripted.turns[-1].message.parts] == ["wait gate", TEXT]


def event_of(task: GivenTask) -> bytes:
    entry = bytes(task.entry)
    return entry if task.kind == "task.1" else bytes(msgspec.json.decode(entry, type=Wrapped).task)


class Wrapped(msgspec.Struct):
    task: msgspec.Raw


async def read_whole(w: World, body: bytes) -> Any:
    pieces = await w.service.large_values.pieces(SCOPE, body)
    whole = [each async for each in w.service.large_values.written_out(pieces)]
    return msgspec.json.decode(b"".join(whole))


async def test_a_refused_large_text_is_read_whole_as_well(
    make_store: Callable[[], Store],
) -> None:
    async with world(store=make_store(), files="reject") as w:
        task = given(parts=(Part(text=TEXT), Part(raw=b"x")))
        await adopt(w, task)
        first, _ = await w.journal("given-1")
        assert await read_whole(w, first.body) == msgspec.json.decode(event_of(task))


async def test_an_agent_without_contexts_takes_one_that_the_client_did_not_name() -> None:
    profile = {"context_mode": "stateless", "stateless_context": "reject"}
    async with world(preset_name="standard", **profile) as w:
        await adopt(w, given("say hi"))
        assert (await w.ended("given-1")).status.state is COMPLETED


async def test_the_agent_gets_no_files_where_it_takes_none() -> None:
    async with world(files="ignore") as w:
        task = given(parts=(Part(text="say hi"), Part(raw=b"x")))
        await adopt(w, task)
        ended = await w.ended("given-1")
        # The client sees what it has sent.
        assert len(ended.history[0].parts) == 2
        assert len(w.scripted.turns[0].message.parts) == 1


async def test_the_agent_gets_no_files_after_a_restart_either(
    make_store: Callable[[], Store],
) -> None:
    w = World(store=make_store(), node="one", files="ignore")
    await w.open()
    await w.submit("wait gate", context="c")
    task = given(parts=(Part(text="say hi"), Part(raw=b"x")), context="c")
    await adopt(w, task)
    await w.vanish()
    await w.store.close()
    async with world(store=make_store(), node="two", files="ignore", clock=next_morning()) as again:
        ended = await again.ended("given-1")
        assert len(ended.history[0].parts) == 2
        assert [part.text for part in again.scripted.turns[-1].message.parts] == ["say hi"]
