import asyncio

from trunkline.background import BackgroundTasks
from trunkline.runtime.wakeups import MAX_AWAKE, Wakeups
from trunkline.testing.clock import FakeClock, settle


async def one_pass() -> None:
    await FakeClock().sleep(0)


class Sleepers:
    """Tasks that wait to be woken, and note in which order they went on."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._tasks = BackgroundTasks("sleepers")
        self.tasks: list[asyncio.Task[None]] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.went_on: list[int] = []

    async def add(self, count: int) -> range:
        numbers = range(len(self.waiters), len(self.waiters) + count)
        for number in numbers:
            self.waiters.append(asyncio.get_running_loop().create_future())
            self.tasks.append(self._tasks.start(self._sleep(number), name=f"sleeper {number}"))
        await settle()
        return numbers

    async def _sleep(self, number: int) -> None:
        waiter = self.waiters[number]
        try:
            await waiter
        finally:
            if waiter.done() and not waiter.cancelled():
                self._wakeups.went_on()
        self.went_on.append(number)

    def wake(self, numbers: range, news: object) -> None:
        for number in numbers:
            self._wakeups.wake(self.waiters[number], news)

    async def passes(self) -> list[int]:
        """How many go on in each pass of the loop, until nobody does."""
        counts: list[int] = []
        while True:
            before = len(self.went_on)
            await one_pass()
            if len(self.went_on) == before:
                return counts
            counts.append(len(self.went_on) - before)


async def test_few_go_on_together_in_the_next_pass() -> None:
    sleepers = Sleepers(Wakeups())
    sleepers.wake(await sleepers.add(MAX_AWAKE), "news")
    assert await sleepers.passes() == [MAX_AWAKE]


async def test_a_crowd_goes_on_in_slices_and_in_order() -> None:
    sleepers = Sleepers(Wakeups())
    crowd = await sleepers.add(10 * MAX_AWAKE + 1)
    sleepers.wake(crowd, "news")
    assert await sleepers.passes() == [MAX_AWAKE] * 10 + [1]
    assert sleepers.went_on == [*crowd]


async def test_crowds_take_turns() -> None:
    sleepers = Sleepers(Wakeups())
    large, small = await sleepers.add(20 * MAX_AWAKE), await sleepers.add(3)
    sleepers.wake(large, "a")
    sleepers.wake(small, "b")
    await one_pass()
    await one_pass()
    assert {*small} <= {*sleepers.went_on}
    assert len(sleepers.went_on) == 2 * MAX_AWAKE


async def test_those_that_leave_while_they_wait_take_no_turn() -> None:
    sleepers = Sleepers(Wakeups())
    crowd = await sleepers.add(5 * MAX_AWAKE)
    sleepers.wake(crowd, "news")
    for task in sleepers.tasks[MAX_AWAKE:-1]:
        task.cancel()
    assert await sleepers.passes() == [MAX_AWAKE, 1]
    assert sleepers.went_on == [*range(MAX_AWAKE), crowd[-1]]


async def test_those_that_leave_after_they_were_woken_make_room() -> None:
    sleepers = Sleepers(Wakeups())
    sleepers.wake(await sleepers.add(MAX_AWAKE), "news")
    for task in sleepers.tasks:
        task.cancel()
    await settle()
    assert sleepers.went_on == []
    sleepers.wake(await sleepers.add(MAX_AWAKE), "news")
    assert await sleepers.passes() == [MAX_AWAKE]


async def test_the_same_news_can_come_again() -> None:
    sleepers = Sleepers(Wakeups(limit=1))
    for _ in range(3):
        sleepers.wake(await sleepers.add(3), "beat")
        assert await sleepers.passes() == [1, 1, 1]


async def test_a_turn_comes_in_a_later_pass_and_for_few_at_a_time() -> None:
    wakeups, tasks = Wakeups(limit=2), BackgroundTasks("steps")
    steps: list[str] = []

    async def take_steps(name: str) -> None:
        for _ in range(3):
            await wakeups.turn()
            steps.append(name)

    for name in "abcde":
        tasks.spawn(take_steps(name), name=name)
    await one_pass()
    assert steps == []
    per_pass = []
    while len(steps) < 15:
        before = len(steps)
        await one_pass()
        per_pass.append(len(steps) - before)
    assert max(per_pass) == 2
    # Nobody gets a second turn while somebody waits for the first.
    assert sorted(steps[:5]) == [*"abcde"]


async def test_a_turn_that_is_given_up_goes_to_somebody_else() -> None:
    wakeups, tasks = Wakeups(limit=1), BackgroundTasks("steps")
    given_up = [tasks.start(wakeups.turn(), name=f"given up {n}") for n in range(3)]
    await one_pass()
    for task in given_up:
        task.cancel()
    last = tasks.start(wakeups.turn(), name="last")
    async with asyncio.timeout(10):
        await last
