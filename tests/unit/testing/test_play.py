import pytest

from trunkline.testing import play, stateful


def count_up(state: int, step: int) -> tuple[int, list[str]]:
    return state + step, [f"now {state + step}"]


def test_play_feeds_in_order() -> None:
    play(stateful(count_up, 0), (1, ["now 1"]), (2, ["now 3"]))


def test_play_names_the_step_that_differs() -> None:
    with pytest.raises(AssertionError, match="step 2, 2"):
        play(stateful(count_up, 0), (1, ["now 1"]), (2, ["now 2"]))
