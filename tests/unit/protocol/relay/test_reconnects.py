from hypothesis import given
from hypothesis import strategies as st

from trunkline.protocol.relay.reconnects import (
    ASKED_SPREAD_S,
    FIRST_S,
    LONGEST_ASKED_S,
    LONGEST_S,
    STABLE_S,
    Health,
    Reconnects,
    wanted,
)


def waits(reconnects: Reconnects, count: int, *, chance: float = 1.0) -> list[float]:
    return [reconnects.failed(0, chance) for _ in range(count)]


def test_waits_grow_up_to_a_minute() -> None:
    assert waits(Reconnects(), 9) == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_each_wait_is_a_random_part_of_its_limit() -> None:
    assert waits(Reconnects(), 3, chance=0.0) == [0, 0, 0]
    assert waits(Reconnects(), 3, chance=0.5) == [0.25, 0.5, 1]


def test_a_relay_may_ask_for_more() -> None:
    reconnects = Reconnects()
    assert reconnects.failed(0, 0.0, retry_after_s=7) == 7
    assert reconnects.failed(0, 1.0, retry_after_s=7) == 7 + ASKED_SPREAD_S


def test_a_relay_that_says_when_to_come_back_is_none_that_fails() -> None:
    reconnects = Reconnects()
    assert reconnects.failed(0, 1.0) == 0.5
    asked = [reconnects.failed(0, 1.0, retry_after_s=1) for _ in range(20)]
    assert asked == [1 + ASKED_SPREAD_S] * 20
    assert reconnects.failed(0, 1.0) == 1


def test_a_relay_cannot_keep_a_host_away_for_ever() -> None:
    for asked_s in (1e9, float("inf")):
        assert (
            Reconnects().failed(0, 1.0, retry_after_s=asked_s) == LONGEST_ASKED_S + ASKED_SPREAD_S
        )


def test_waits_begin_anew_after_a_stable_connection() -> None:
    reconnects = Reconnects()
    waits(reconnects, 5)
    reconnects.connected(100)
    assert reconnects.failed(100 + STABLE_S, 1.0) == 0.5


def test_a_connection_that_breaks_at_once_counts_as_a_failure() -> None:
    reconnects = Reconnects()
    for _ in range(20):
        reconnects.connected(0)
        reconnects.failed(STABLE_S - 1, 1.0)
    assert reconnects.failed(0, 1.0) == LONGEST_S


seconds = st.floats(min_value=0, max_value=1e6)
chances = st.floats(min_value=0, max_value=1)


@given(st.lists(st.tuples(seconds, chances, seconds, st.booleans()), max_size=40))
def test_no_wait_is_shorter_than_asked_for_or_a_minute_longer(
    steps: list[tuple[float, float, float, bool]],
) -> None:
    """And none depends on the failures before the last stable connection."""
    reconnects, now, failures = Reconnects(), 0.0, 0
    for passed_s, chance, retry_after_s, connects in steps:
        if connects:
            reconnects.connected(now)
        now += passed_s
        if connects and passed_s >= STABLE_S:
            failures = 0
        wait_s = reconnects.failed(now, chance, retry_after_s=retry_after_s)
        limit = min(LONGEST_S, FIRST_S * 2.0 ** min(failures, 16))
        asked_s = min(retry_after_s, LONGEST_ASKED_S)
        assert asked_s <= wait_s <= asked_s + (ASKED_SPREAD_S if asked_s else limit)
        failures += not asked_s


relays = st.lists(st.sampled_from(Health), min_size=1, max_size=5)


def is_attached(health: Health) -> bool:
    return health in (Health.ATTACHED, Health.STABLE)


@given(relays, st.integers(min_value=0, max_value=5))
def test_a_host_never_leaves_its_agents_without_a_relay(healths: list[Health], kept: int) -> None:
    kept = min(kept, len(healths))
    count = wanted(healths, kept=kept)
    assert 1 <= count <= len(healths)
    if any(map(is_attached, healths[:kept])):
        assert any(map(is_attached, healths[:count]))
    # It leaves a relay only for one that is stable, and preferred.
    if count < kept:
        assert healths[count - 1] is Health.STABLE
    # It adds one only while all before it fail.
    if count > max(kept, 1):
        assert set(healths[: count - 1]) == {Health.FAILING}


def test_a_host_begins_with_its_first_relay() -> None:
    assert wanted([Health.TRYING] * 3, kept=0) == 1
    assert wanted([Health.FAILING, Health.TRYING, Health.TRYING], kept=1) == 2
    assert wanted([Health.FAILING] * 3, kept=1) == 3
    assert wanted([Health.ATTACHED, Health.STABLE], kept=2) == 2
    assert wanted([Health.STABLE, Health.STABLE], kept=2) == 1
