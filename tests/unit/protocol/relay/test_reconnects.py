from trunkline.protocol.relay.reconnects import LONGEST_S, STABLE_S, Reconnects


def waits(reconnects: Reconnects, count: int, *, chance: float = 1.0) -> list[float]:
    return [reconnects.failed(0, chance) for _ in range(count)]


def test_waits_grow_up_to_a_minute() -> None:
    assert waits(Reconnects(), 9) == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_each_wait_is_a_random_part_of_its_limit() -> None:
    assert waits(Reconnects(), 3, chance=0.0) == [0, 0, 0]
    assert waits(Reconnects(), 3, chance=0.5) == [0.25, 0.5, 1]


def test_a_relay_may_ask_for_more() -> None:
    reconnects = Reconnects()
    assert reconnects.failed(0, 1.0, retry_after_s=7) == 7
    assert reconnects.failed(0, 1.0) == 1


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
