import pytest

from trunkline.engine.retention import MAX_DRIFT_S, ClockTrust

START_MS = 1_750_000_000_000
WEEK_S = 7 * 86_400


class Clocks:
    """The two clocks, and what is made of them once a minute."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.monotonic_s = 500.0
        self.trust = ClockTrust(now_ms=START_MS, monotonic_s=self.monotonic_s)

    def minutes(self, count: int, *, speed: float = 1.0) -> list[float]:
        jumps = []
        for _ in range(count):
            self.monotonic_s += 60
            self.wall_s += 60 * speed
            jumps.append(self.observe())
        return jumps

    def observe(self) -> float:
        now_ms = START_MS + round(self.wall_s * 1000)
        return self.trust.observe(now_ms=now_ms, monotonic_s=self.monotonic_s)


def test_clocks_that_agree_become_trusted_by_the_minute() -> None:
    clocks = Clocks()
    assert clocks.trust.steady_s == 0
    assert clocks.minutes(90) == [0.0] * 90
    assert clocks.trust.steady_s == 90 * 60


@pytest.mark.parametrize("jump_s", [8 * 86_400, -8 * 86_400, 3600, -MAX_DRIFT_S - 1])
def test_a_jump_in_either_direction_begins_anew(jump_s: float) -> None:
    clocks = Clocks()
    clocks.minutes(90)
    clocks.wall_s += jump_s
    assert clocks.minutes(1) == [pytest.approx(jump_s)]
    assert clocks.trust.steady_s == 0
    # The new time is as good as the old one, once it has been steady as long.
    assert clocks.minutes(60) == [0.0] * 60
    assert clocks.trust.steady_s == 3600


def test_a_jump_there_and_back_is_two() -> None:
    clocks = Clocks()
    clocks.minutes(90)
    clocks.wall_s += WEEK_S
    assert clocks.minutes(2) == [pytest.approx(WEEK_S), 0.0]
    clocks.wall_s -= WEEK_S
    assert clocks.minutes(2) == [pytest.approx(-WEEK_S), 0.0]
    assert clocks.trust.steady_s == 60


def test_a_machine_that_slept_is_a_jump() -> None:
    # The monotonic clock stands still while a machine is suspended.
    clocks = Clocks()
    clocks.minutes(90)
    clocks.wall_s += 8 * 3600
    assert clocks.minutes(1) == [pytest.approx(8 * 3600)]


def test_a_process_that_was_stopped_is_none() -> None:
    clocks = Clocks()
    clocks.wall_s += 8 * 3600
    clocks.monotonic_s += 8 * 3600
    assert clocks.observe() == 0.0
    assert clocks.trust.steady_s == 8 * 3600


@pytest.mark.parametrize("speed", [1.08, 0.92])
def test_a_clock_that_a_time_server_slews_is_steady(speed: float) -> None:
    # chrony corrects by 83,333 ppm at most, and that in steps nobody sees.
    assert Clocks().minutes(120, speed=speed) == [0.0] * 120
