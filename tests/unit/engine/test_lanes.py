from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from trunkline.engine.lanes import Lanes


class Model:
    """What lanes promise: every list of tickets runs from its front, longest wait first."""

    def __init__(self, max_running: int) -> None:
        self.max_running = max_running or 10**9
        self.slots = 10**9
        self.tickets: list[tuple[str, int]] = []  # in the order of entry
        self.running: list[tuple[str, int]] = []
        self.ready: list[str] = []  # lanes with a head that is held up, by when it became so

    def start(self) -> list[int]:
        started = []
        while self.ready and len(self.running) < min(self.max_running, self.slots):
            self.running.append(self.queue(self.ready.pop(0))[0])
            started.append(self.running[-1][1])
        return started

    def queue(self, lane: str) -> list[tuple[str, int]]:
        return [ticket for ticket in self.tickets if ticket[0] == lane]

    def enter(self, ticket: tuple[str, int]) -> list[int]:
        self.tickets.append(ticket)
        if len(self.queue(ticket[0])) == 1:
            self.ready.append(ticket[0])
        return self.start()

    def leave(self, ticket: tuple[str, int]) -> list[int]:
        self.tickets.remove(ticket)
        lane = ticket[0]
        if ticket in self.running:
            self.running.remove(ticket)
            self.ready += [lane] if self.queue(lane) else []
        elif not self.queue(lane):
            self.ready.remove(lane)
        return self.start()


class LanesMachine(RuleBasedStateMachine):
    @initialize(max_running=st.integers(0, 3))
    def build(self, max_running: int) -> None:
        self.lanes: Lanes[str, int] = Lanes(max_waiting=2, max_running=max_running)
        self.model = Model(max_running)
        self.numbers = count()

    @rule(lane=st.sampled_from("abcd"))
    def enter(self, lane: str) -> None:
        number = next(self.numbers)
        started = self.lanes.enter(lane, number)
        assert self.model.enter((lane, number)) == ([number] if started else [])

    @precondition(lambda self: self.model.tickets)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.model.tickets))
        assert list(self.lanes.leave(*ticket)) == self.model.leave(ticket)

    @precondition(lambda self: self.model.running)
    @rule()
    def finish_all_that_runs(self) -> None:
        for ticket in list(self.model.running):
            assert list(self.lanes.leave(*ticket)) == self.model.leave(ticket)

    @rule(slots=st.integers(0, 4))
    def use_slots(self, slots: int) -> None:
        self.model.slots = slots
        assert list(self.lanes.use_slots(slots)) == self.model.start()

    @rule(lane=st.sampled_from("abcd"))
    def leave_unknown(self, lane: str) -> None:
        assert self.lanes.leave(lane, -1) == ()

    @invariant()
    def counts_agree(self) -> None:
        model, lanes = self.model, self.lanes
        assert lanes.running == len(model.running) <= model.max_running
        assert lanes.has_room == (len(model.running) < min(model.max_running, model.slots))
        assert lanes.busy == len(model.running) + len(model.ready)
        assert lanes.total_waiting == len(model.tickets) - len(model.running)
        for lane in "abcd":
            queue = model.queue(lane)
            waiting = [ticket for ticket in queue if ticket not in model.running]
            assert lanes.waiting(lane) == len(waiting)
            assert lanes.is_full(lane) == (len(waiting) >= 2)
            assert lanes.is_taken(lane) == bool(queue)
            for position, (_, number) in enumerate(waiting, start=1):
                assert lanes.position(lane, number) == position
            for _, number in model.running:
                assert lanes.position(lane, number) is None
            assert lanes.position(lane, -1) is None

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        self.use_slots(1)
        # Nobody starves: when whatever runs finishes, everything gets its turn.
        order: list[tuple[str, int]] = []
        expected = {lane: self.model.queue(lane) for lane in "abcd"}
        while self.model.running:
            ticket = self.model.running[0]
            order.append(ticket)
            assert list(self.lanes.leave(*ticket)) == self.model.leave(ticket)
        assert self.model.tickets == []
        assert {lane: [t for t in order if t[0] == lane] for lane in "abcd"} == expected
        assert (self.lanes.running, self.lanes.total_waiting) == (0, 0)


def test_lanes_do_what_the_model_does() -> None:
    run_state_machine_as_test(
        LanesMachine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )


def test_a_lane_runs_one_at_a_time_in_order() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9)
    assert [lanes.enter("a", number) for number in (1, 2, 3)] == [True, False, False]
    assert [lanes.position("a", number) for number in (1, 2, 3)] == [None, 1, 2]
    assert lanes.leave("a", 1) == (2,)
    assert lanes.leave("a", 2) == (3,)
    assert lanes.leave("a", 3) == ()
    assert lanes.leave("a", 3) == ()


def test_lanes_do_not_wait_for_each_other() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9)
    assert lanes.enter("a", 1)
    assert lanes.enter("b", 2)
    assert lanes.running == 2


def test_a_bound_on_all_lanes_lets_the_longest_waiting_lane_go_first() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    assert lanes.enter("a", 1)
    assert not lanes.enter("a", 2)
    assert not lanes.enter("b", 3)
    # b has waited since before a's second could have run.
    assert lanes.leave("a", 1) == (3,)
    assert lanes.leave("b", 3) == (2,)


def test_the_head_of_a_held_lane_may_leave() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    lanes.enter("a", 1)
    lanes.enter("b", 2)
    lanes.enter("b", 3)
    assert lanes.leave("b", 2) == ()
    assert lanes.leave("b", 3) == ()
    assert lanes.leave("a", 1) == ()
    assert (lanes.running, lanes.total_waiting) == (0, 0)


@pytest.mark.parametrize("max_running", [0, 1])
def test_a_lane_is_full_by_those_that_wait_and_not_by_the_one_that_runs(max_running: int) -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=1, max_running=max_running)
    assert not lanes.is_full("a")
    lanes.enter("a", 1)
    assert not lanes.is_full("a")
    lanes.enter("a", 2)
    assert lanes.is_full("a")
    assert lanes.waiting("a") == 1
    assert lanes.waiting("b") == 0


def test_those_behind_one_that_left_the_middle_move_up() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9)
    for number in range(6):
        lanes.enter("a", number)
    assert lanes.leave("a", 3) == ()
    assert lanes.leave("a", 5) == ()
    lanes.enter("a", 6)
    assert [lanes.position("a", number) for number in range(7)] == [None, 1, 2, None, 3, None, 4]
    assert lanes.leave("a", 0) == (1,)
    assert [lanes.position("a", number) for number in (2, 4, 6)] == [1, 2, 3]


def test_the_head_of_a_lane_that_is_held_up_is_next() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    assert lanes.enter("a", 1)
    assert not lanes.has_room
    lanes.enter("b", 2)
    lanes.enter("b", 3)
    assert [lanes.position("b", number) for number in (2, 3)] == [1, 2]


def test_a_higher_limit_starts_lanes_in_order_and_a_lower_one_stops_none() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    assert [lanes.enter(lane, n) for n, lane in enumerate("abcd")] == [True, False, False, False]
    assert lanes.resize(max_waiting=1, max_running=3) == (1, 2)
    assert lanes.running == 3
    assert lanes.resize(max_waiting=0, max_running=1) == ()
    assert lanes.running == 3
    assert lanes.is_full("a")
    assert [lanes.leave(lane, n) for n, lane in enumerate("abc")] == [(), (), (3,)]
    assert lanes.resize(max_waiting=1, max_running=0) == ()


def test_without_slots_nothing_starts_and_fewer_slots_stop_none() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, slots=0)
    assert [lanes.enter(lane, n) for n, lane in enumerate("abc")] == [False, False, False]
    assert lanes.use_slots(2) == (0, 1)
    assert lanes.use_slots(0) == ()
    assert (lanes.running, lanes.busy) == (2, 3)
    assert lanes.leave("a", 0) == ()
    # The lower of the two limits holds.
    assert lanes.resize(max_waiting=9, max_running=1, slots=5) == ()
    assert lanes.leave("b", 1) == (2,)


def test_a_ticket_that_lingers_counts_as_one_that_runs() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    lanes.enter("a", 0)
    lanes.enter("b", 1)
    lanes.linger()
    assert lanes.leave("a", 0) == ()
    assert (lanes.running, lanes.busy, lanes.total_waiting) == (1, 2, 1)
    assert lanes.end_lingering() == (1,)
    assert lanes.tickets("b") == (1,)
    assert lanes.tickets("a") == ()


def test_tickets_and_lanes_that_are_held_up_come_in_order() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9, max_running=1)
    for number, lane in enumerate("acbcb"):
        lanes.enter(lane, number)
    assert lanes.held_up == ("c", "b")
    assert lanes.tickets("c") == (1, 3)


def claimed(max_running: int = 0) -> Lanes[str, int]:
    """Lanes of which the first letter is the driver."""
    return Lanes(max_waiting=9, max_running=max_running, driver_of=lambda lane: lane[0])


def test_the_lanes_of_one_driver_run_at_the_same_time() -> None:
    lanes = claimed(max_running=2)
    assert lanes.enter("a1", 1)
    assert lanes.enter("a2", 2)
    assert not lanes.starts_at_once("a3")
    assert not lanes.enter("a3", 3)
    assert lanes.leave("a1", 1) == (3,)


def test_another_driver_waits_until_the_last_lane_of_the_first_has_ended() -> None:
    lanes = claimed()
    lanes.enter("a1", 1)
    lanes.enter("a2", 2)
    assert not lanes.starts_at_once("b1")
    assert not lanes.enter("b1", 3)
    assert lanes.position("b1", 3) == 1
    assert lanes.leave("a1", 1) == ()
    assert lanes.leave("a2", 2) == (3,)
    assert lanes.starts_at_once("b2")


def test_no_driver_passes_one_that_waits() -> None:
    lanes = claimed()
    lanes.enter("a1", 1)
    lanes.enter("b1", 2)
    # Neither a new lane nor the next ticket of the lane that runs.
    assert not lanes.enter("a2", 3)
    assert not lanes.enter("a1", 4)
    assert lanes.leave("a1", 1) == (2,)
    assert lanes.leave("b1", 2) == (3, 4)


def test_the_claim_is_held_by_a_ticket_that_lingers() -> None:
    lanes = claimed()
    lanes.enter("a1", 1)
    lanes.enter("b1", 2)
    lanes.linger()
    assert lanes.leave("a1", 1) == ()
    assert lanes.end_lingering() == (2,)


def test_a_claim_that_comes_later_is_free_after_all_that_run() -> None:
    lanes: Lanes[str, int] = Lanes(max_waiting=9)
    lanes.enter("a1", 1)
    lanes.enter("b1", 2)
    lanes.resize(max_waiting=9, max_running=0, driver_of=lambda lane: lane[0])
    assert not lanes.enter("a2", 3)
    assert lanes.leave("a1", 1) == ()
    assert lanes.leave("b1", 2) == (3,)
    lanes.enter("b2", 4)
    # And one that goes frees those that wait.
    assert lanes.resize(max_waiting=9, max_running=0) == (4,)


def test_a_driver_leaves_the_queue_without_a_turn() -> None:
    lanes = claimed()
    lanes.enter("a1", 1)
    lanes.enter("b1", 2)
    lanes.enter("a2", 3)
    # Whoever was behind it takes its place.
    assert lanes.leave("b1", 2) == (3,)
