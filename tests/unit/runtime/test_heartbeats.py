import pytest

from trunkline.model.values import TERMINAL
from trunkline.runtime.fanout import Beat, Subscription
from trunkline.runtime.heartbeats import MAX_SLOTS, MIN_SLOT_S, Heartbeats


def reader() -> Subscription:
    return Subscription(closes_on=TERMINAL, limit=4)


async def beats(following: Subscription) -> bool:
    """Whether a sign of life is pending; takes it if so."""
    following.put(Beat())
    return len(await following.next()) == 2


@pytest.mark.parametrize(
    ("interval_s", "slots"), [(15.0, MAX_SLOTS), (600.0, MAX_SLOTS), (1.0, 4), (0.1, 1)]
)
def test_an_interval_has_as_many_slots_as_are_worth_it(interval_s: float, slots: int) -> None:
    heartbeats = Heartbeats(interval_s)
    assert heartbeats.slot_s * slots == pytest.approx(interval_s)
    assert heartbeats.slot_s >= MIN_SLOT_S or slots == 1


async def test_each_reader_gets_one_sign_of_life_in_an_interval() -> None:
    heartbeats = Heartbeats(15.0)
    following = reader()
    heartbeats.add(following)
    for _ in range(3):
        for _ in range(MAX_SLOTS - 1):
            heartbeats.tick()
            assert not await beats(following)
        heartbeats.tick()
        assert await beats(following)


async def test_readers_that_came_one_after_the_other_are_served_so() -> None:
    heartbeats = Heartbeats(15.0)
    readers = []
    for _ in range(MAX_SLOTS):
        readers.append(reader())
        heartbeats.add(readers[-1])
        heartbeats.tick()
    # The last tick was the first one's turn.
    served = [[number for number in range(MAX_SLOTS) if await beats(readers[number])]]
    for _ in range(MAX_SLOTS - 1):
        heartbeats.tick()
        served.append([number for number in range(MAX_SLOTS) if await beats(readers[number])])
    assert served == [[number] for number in range(MAX_SLOTS)]


async def test_a_reader_that_left_is_forgotten() -> None:
    heartbeats = Heartbeats(0.1)
    following = reader()
    heartbeats.add(following)
    assert len(heartbeats) == 1
    heartbeats.discard(following)
    heartbeats.discard(following)
    assert not heartbeats
    heartbeats.tick()
    assert not await beats(following)
