import pytest

from trunkline.engine.retention import (
    BUSY_REST,
    LONG_STEP_S,
    MAX_REST_S,
    QUIET_REST,
    SHORT_STEP_S,
    Pacing,
)

MEDIUM_S = (LONG_STEP_S + SHORT_STEP_S) / 2


def pacing() -> Pacing:
    return Pacing(smallest=10, largest=200)


@pytest.mark.parametrize(("is_busy", "times"), [(True, BUSY_REST), (False, QUIET_REST)])
def test_the_rest_is_a_multiple_of_what_the_step_took(is_busy: bool, times: float) -> None:
    assert pacing().rest_after(0.01, is_busy=is_busy) == pytest.approx(0.01 * times)
    assert pacing().rest_after(0.2, is_busy=is_busy) == pytest.approx(0.2 * times)


def test_a_rest_has_an_end() -> None:
    assert pacing().rest_after(60.0, is_busy=True) == MAX_REST_S


def test_long_steps_make_the_next_ones_smaller_down_to_a_bound() -> None:
    pace = pacing()
    sizes = []
    for _ in range(5):
        sizes.append(pace.size)
        pace.rest_after(LONG_STEP_S * 2, is_busy=False)
    assert sizes == [50, 25, 12, 10, 10]


def test_short_steps_make_the_next_ones_larger_up_to_a_bound() -> None:
    pace = pacing()
    sizes = []
    for _ in range(4):
        sizes.append(pace.size)
        pace.rest_after(SHORT_STEP_S / 2, is_busy=True)
    assert sizes == [50, 100, 200, 200]


def test_steps_that_take_as_long_as_they_should_stay_as_they_are() -> None:
    pace = pacing()
    pace.rest_after(MEDIUM_S, is_busy=True)
    assert pace.size == 50
