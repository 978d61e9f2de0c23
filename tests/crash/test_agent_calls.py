"""R-07, R-08, R-14: a crash at every write of the life of calls, and a restart. No outcome is lost,
and none comes twice."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pytest
from tests.crash.process import Process
from tests.routing.helpers import Helper, acts, use
from tests.routing.world import CallWorld
from tests.unit.stores.jsonfiles import store_on

from trunkline.backends.python import Turn
from trunkline.background import BackgroundTasks
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.model.profile import Profile
from trunkline.model.values import text_of
from trunkline.ports.store import OperatorQuery, Scope, Store, all_entries, all_tasks
from trunkline.routing.call_records import CallRecord
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock, settle

When: TypeAlias = Literal["before", "after"]
# The main store, and that of the called agent if it is another one.
Stores: TypeAlias = tuple[Store, Store | None]
CONTEXTS = ("c1", "c2", "c3")
# Answers become entries, turns and copies, and nothing is forgotten while the test looks.
OPTIONS: Any = {
    "limits": CallLimits(grace_s=24 * 3600),
    "policies": {
        "caller": CallPolicy(delivery="dual", starts_turn=True),
        "other": CallPolicy(),
    },
    "published": {"caller": {"profile": Profile(origin_routing_policy="legacy-origin-routing")}},
}


class Life:
    """One process, until it dies or has done everything."""

    def __init__(self, stores: Stores, process: Process, name: str) -> None:
        main, other = stores
        self.process = process
        self.helper = Helper()
        # The calls that an agent was told of, and the answers that one has waited for.
        self.made: list[str] = []
        self.direct: list[str] = []
        agents: Any = {"caller": self._caller, "other": acts}
        theirs = {"helper": self.helper.answers}
        self.w = CallWorld(
            agents if other is not None else agents | theirs,
            elsewhere=theirs if other is not None else None,
            store=process.store(main),
            other_store=process.store(other) if other is not None else None,
            clock=process.clock,
            node=name,
            **OPTIONS,
        )

    async def _caller(self, turn: Turn) -> Any:
        if "correlationId" in turn.text:
            return "thanks"
        return await acts(turn)

    async def play(self) -> None:
        w, helper = self.w, self.helper
        await w.open()
        # An answer, a question with its answer, a late answer, and an error.
        await self._ask("one")
        helper.open("one")
        asked = await self._ask("ask size")
        helper.open("ask size", "XL")
        await self._until(lambda: w.entries("caller", "c1"), 2)
        await self._ask("XL", taskId=asked["taskId"])
        await self._ask("slow", timeoutSeconds=3)
        await self._ask("fail", context="c2")
        helper.open("fail")
        await self._pass(4)
        helper.open("slow")
        # One that nobody waits for, one that its caller waits for, one whose session is ended.
        await use(w, "agent_call", agent="acme/helper", input="silent", timeout=0)
        helper.open("silent", "now")
        waiting: Any = {"agent": "acme/helper", "input": "now", "wait": True, "timeoutSeconds": 8}
        answer = await use(w, "agent_call", by="other", **waiting)
        self.direct.append(answer["correlationId"])
        await self._ask("gone", context="c3")
        self.process.clock.jump(0.001)
        await w.routing.sessions.end(w.turn_of("caller", context="c3").session)
        await self._pass(2)

    async def _ask(self, text: str, *, context: str = "c1", **options: Any) -> dict[str, Any]:
        asked: Any = {"agent": "acme/helper", "input": text, "timeoutSeconds": 8} | options
        made = await use(self.w, "agent_call", context=context, **asked)
        self.made.append(made["correlationId"])
        return made

    async def _until(self, find: Callable[[], Any], count: int) -> None:
        while len(await find()) < count:
            await settle()

    async def _pass(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.process.let_pass(1)

    async def go_on(self) -> None:
        """After a restart: whatever is left comes to its end."""
        self.helper.is_open = True
        await self.w.open()
        await self._pass(12)


async def live(stores: Stores, process: Process) -> tuple[Life, bool]:
    """A life, and whether it ended in a crash."""
    life, tasks = Life(stores, process, "one"), BackgroundTasks("life")
    playing = tasks.start(life.play(), name="play")
    crashed: asyncio.Task[Any] = tasks.start(process.crashed.wait(), name="crash")
    async with asyncio.timeout(30):
        await asyncio.wait({playing, crashed}, return_when=asyncio.FIRST_COMPLETED)
    has_crashed = crashed.done()
    await settle()
    await tasks.close()
    await life.w.vanish()
    if not has_crashed:
        playing.result()
    return life, has_crashed


async def messages(store: Store) -> Counter[str]:
    """How often each message came to a task of any agent."""
    found: Counter[str] = Counter()
    async for task in all_tasks(store, OperatorQuery(limit=100)):
        entries = await all_entries(store, task.task_id)
        for entry in entries:
            event: Any = entry.event
            history = getattr(getattr(event, "task", event), "history", ())
            said = getattr(event, "message", None)
            found.update([each.message_id for each in (*history, *([said] if said else []))])
    return found


async def check(before: Life, after: Life) -> None:
    """Every call that was made has one outcome, and what follows that exactly once."""
    w = after.w
    main = w.store
    calls = {each.call.id: each for each in await w.calls()}
    assert set(before.made) | set(before.direct) <= calls.keys()
    assert {each.state for each in calls.values()} <= {
        "completed",
        "error",
        "input_required",
        "timeout",
        "discarded",
    }
    entries: dict[str, dict[str, Any]] = {}
    for context in CONTEXTS:
        for entry in await w.entries("caller", context):
            assert entry["correlationId"] not in entries
            entries[entry["correlationId"]] = entry
    told = await messages(main)
    other = w.runtimes[-1].store
    asked = await messages(other) if other is not main else told
    copies = await copies_of(w)
    for id, record in calls.items():
        # Its message is in the task of the called agent, which was made in the same commit.
        assert asked[id] == 1, record
        reaches = not record.call.waits and record.state != "discarded"
        assert (id in entries) == reaches, record
        if reaches:
            assert entries[id] == msgspec.json.decode(record.payload)
        assert told[f"resp-{id}"] == reaches, record
        assert copies[f"queued-reply-resp-{id}"] == reaches, record
        check_answer(record)
    assert entries.keys() <= calls.keys()


def check_answer(record: CallRecord) -> None:
    """An answer is that of its own turn."""
    if record.state == "completed":
        output = msgspec.json.decode(record.payload)["output"]
        assert output in ("about one", "about XL", "about slow", "about now", "about gone"), record


async def copies_of(w: CallWorld) -> Counter[str]:
    found: Counter[str] = Counter()
    async for stored in all_tasks(w.store, OperatorQuery(agent="acme/caller", limit=100)):
        task = await w.get("caller", stored.task_id)
        found.update([each.artifact_id for each in task.artifacts])
        assert all(text_of(each.parts) or each.parts for each in task.artifacts)
    return found


async def crash_at_writes(
    make: Callable[[int, FakeClock], Stores], when: When, step: int, *, first: int = 1
) -> int:
    """At every `step`th write. `make` gives the stores of a case, as they are now. Returns how many
    writes there are."""
    crash_on = first
    while True:
        clock = FakeClock()
        stores = make(crash_on, clock)
        before, has_crashed = await live(stores, Process(crash_on=crash_on, when=when, clock=clock))
        for store in stores:
            if store is not None:
                await store.close()
        if not has_crashed:
            return before.process.writes
        after = Life(make(crash_on, clock), Process(clock=clock), "two")
        await after.go_on()
        try:
            await check(before, after)
        except AssertionError as error:
            error.add_note(f"after a crash {when} write {crash_on}")
            raise
        await after.w.close()
        crash_on += step


EVERY = pytest.param(1, marks=pytest.mark.full)


@pytest.mark.parametrize("step", [3, EVERY])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_sqlite(tmp_path: Path, when: When, step: int) -> None:
    def make(case: int, clock: FakeClock) -> Stores:
        return SqliteStore(tmp_path / f"{case}.db", synchronous="normal", clock=clock), None

    first = 1 if when == "before" else min(step, 2)
    assert await crash_at_writes(make, when, step, first=first) > 60


@pytest.mark.parametrize("step", [9, EVERY])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_agent_on_json_files_beside_sqlite(tmp_path: Path, when: When, step: int) -> None:
    def make(case: int, clock: FakeClock) -> Stores:
        main = SqliteStore(tmp_path / f"{case}.db", synchronous="normal", clock=clock)
        return main, store_on(tmp_path / f"{case}", clock=clock, adopts=Scope("", "", ""))

    first = min(step, 3) if when == "before" else min(step, 7)
    assert await crash_at_writes(make, when, step, first=first) > 100
