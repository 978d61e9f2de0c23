"""A relay that dies before or after any call of its store: nothing is lost, nothing runs twice."""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import pytest
from tests.relay.mailboxes import MailboxProcess, Taker, check_head, letter, process
from tests.relay.world import AGENT

from trunkline.ports.store import Store
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, FakeClock, settle

# Runs long, over lines that other tests cover.
pytestmark = pytest.mark.no_cover

Case: TypeAlias = Callable[[MailboxProcess, Taker, list[str]], Awaitable[None]]
LANES = {"a1": "a", "b1": "b", "a2": "a", "a3": "a", "b2": "b"}
TTL_S = 100.0


async def put_all(process: MailboxProcess, answered: list[str], most: int = len(LANES)) -> None:
    for name, context in [*LANES.items()][:most]:
        new = letter(name, context=context, now_ms=process.clock.now_ms(), ttl_s=TTL_S)
        await process.put(new)
        answered.append(name)


async def putting(process: MailboxProcess, taker: Taker, answered: list[str]) -> None:
    await put_all(process, answered)


async def delivering(process: MailboxProcess, taker: Taker, answered: list[str]) -> None:
    await process.world.attach(taker)
    await process.clock.sleep(3)


async def canceling(process: MailboxProcess, taker: Taker, answered: list[str]) -> None:
    mailbox = await process.mailbox()
    for name in ("a2", "b1"):
        assert await mailbox.cancel(mailbox.waiting[name]) is not None
        answered.append(name)


async def expiring(process: MailboxProcess, taker: Taker, answered: list[str]) -> None:
    process.clock.jump(TTL_S + 1)
    await process.clock.sleep(2)


async def calls_of(case: Case, when: Literal["before", "after"]) -> int:
    counting = await run(case, 0, when)
    assert counting.calls
    return counting.calls


async def run(case: Case, crash_on: int, when: Literal["before", "after"]) -> CrashingStore:
    """Run the case in a process that crashes, and then a second one that delivers what is left."""
    clock, taker = FakeClock(), Taker()
    inner = MemoryStore(clock)
    await inner.open()
    put: list[str] = []
    if case is not putting:
        async with process(inner, clock) as first:
            await put_all(first, put, most=2 if case is expiring else len(LANES))
    crashing = CrashingStore(inner, crash_on=crash_on, when=when)
    answered: list[str] = []
    dying = MailboxProcess(crashing, clock)

    async def live() -> None:
        await dying.open()
        await case(dying, taker, answered)

    running = dying.tasks.start(live(), name="case")
    while not (running.done() or crashing.crashed.is_set()):
        await settle()
        await clock.advance(0.5)
    await dying.close()
    if case is putting:
        put = answered
    await after(case, inner, clock, taker, put, answered)
    return crashing


async def after(
    case: Case, inner: Store, clock: FakeClock, taker: Taker, put: list[str], answered: list[str]
) -> None:
    await check_head(inner)
    async with process(inner, clock) as second:
        if case is expiring:
            # The claims of the dead process end, and the time of all letters has come.
            clock.jump(TTL_S + 31)
            await clock.advance(5)
            assert taker.taken == []
            assert await check_head(inner) == (0, len(put))
            return
        await second.world.attach(taker)
        await clock.advance(8)
        letters, ended = await check_head(inner)
        assert letters == 0
        canceled = {*second.mailboxes._open[AGENT].ended} if case is canceling else set()
    assert ended == len(canceled)
    # Each once, and in its order.
    assert len({*taker.taken}) == len(taker.taken)
    for lane in ("a", "b"):
        own = [name for name in LANES if LANES[name] == lane]
        assert [name for name in taker.taken if name in own] == [
            name for name in own if name in taker.taken
        ]
    if case is canceling:
        # What was answered holds, and a task is either canceled or run.
        assert {*answered} <= canceled
        assert {*taker.taken} == {*put} - canceled
    else:
        assert {*put} <= {*taker.taken}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", [putting, delivering, canceling, expiring])
async def test_nothing_is_lost_and_nothing_runs_twice(
    case: Case, when: Literal["before", "after"]
) -> None:
    for crash_on in range(1, await calls_of(case, when) + 1):
        await run(case, crash_on, when)
