import asyncio

from trunkline.testing import FakeClock, SequentialIds


async def test_sleepers_wake_in_order_of_time_then_of_arrival() -> None:
    clock, woken = FakeClock(), list[str]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(f"{name}@{clock.monotonic():g}")

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("b", 2), ("a", 1), ("c", 2), ("d", 9)):
            group.create_task(sleeper(name, seconds))
        await clock.advance(2)
        assert woken == ["a@1", "b@2", "c@2"]
        assert clock.sleeping == 1
        await clock.advance(7)
    assert woken[-1] == "d@9"


async def test_what_falls_asleep_on_the_way_wakes_on_the_way() -> None:
    clock, ticks = FakeClock(), list[float]()

    async def ticker() -> None:
        for _ in range(3):
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(ticker())
        await clock.advance(10)
    assert ticks == [1, 2, 3]


async def test_wall_clock_and_canceled_sleepers() -> None:
    clock = FakeClock(now_ms=1000)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(clock.sleep(1))
        await clock.wait_until_sleeping()
        task.cancel()
    await clock.advance(1.5)
    assert clock.now_ms() == 2500
    assert clock.sleeping == 0
    await clock.sleep(0)


def test_ids_sort() -> None:
    ids = SequentialIds("task")
    made = [ids.new() for _ in range(12)]
    assert made[0] == "task-000001"
    assert made == sorted(made)
