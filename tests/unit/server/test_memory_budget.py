import pytest

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.server.memory_budget import MemoryBudget


def test_what_is_held_is_counted_and_given_back() -> None:
    budget = MemoryBudget(1000)
    budget.hold("alice", 100)
    budget.hold("alice", 50)
    budget.hold("", 10)
    assert (budget.held_bytes, budget.held_for("alice"), budget.held_for("bob")) == (160, 150, 0)
    budget.release("alice", 150)
    budget.release("", 10)
    assert (budget.held_bytes, budget.held_for("alice")) == (0, 0)


def test_one_caller_may_have_half_of_it() -> None:
    budget = MemoryBudget(1000)
    budget.hold("alice", 200)
    budget.admit("alice", 300)
    with pytest.raises(TooManyRequests, match=r"200 bytes for you.*read them") as caught:
        budget.admit("alice", 301)
    assert caught.value.retry_after_s > 0
    budget.admit("bob", 301)


def test_the_last_quarter_is_for_what_is_small() -> None:
    budget = MemoryBudget(1000)
    for name in ("alice", "bob", "carol"):
        budget.hold(name, 200)
    budget.admit("dave", 150)
    with pytest.raises(Unavailable, match=r"server\.max_held_bytes") as caught:
        budget.admit("dave", 151)
    assert caught.value.retry_after_s > 0
    # Whoever asks for none of it in particular is asked the same.
    with pytest.raises(Unavailable):
        budget.admit("", 151)


def test_one_thing_may_be_larger_than_the_budget() -> None:
    budget = MemoryBudget(1000)
    budget.hold("bob", 250)
    budget.admit("alice", 5000)
    budget.hold("alice", 5000)
    assert budget.is_full
    with pytest.raises(TooManyRequests):
        budget.admit("alice", 1)
    with pytest.raises(Unavailable):
        budget.admit("carol", 1)


def test_it_is_scarce_when_more_than_half_is_held() -> None:
    budget = MemoryBudget(1000)
    for size, is_scarce, is_full in ((500, False, False), (1, True, False), (499, True, True)):
        budget.hold("", size)
        assert (budget.is_scarce, budget.is_full) == (is_scarce, is_full)
