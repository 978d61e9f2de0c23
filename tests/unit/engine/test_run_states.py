from itertools import product

import pytest

from trunkline.engine.run_states import TABLE, WAITING, Effect, RunEvent, RunState
from trunkline.model.errors import GatewayBug

# Transcribed from "The states of a run" in docs/reference/tasks.md: a state, an event, the next
# state and the effects in their order. Every pair that is not here is an error. Not taken from
# the code, or it would prove nothing.
EXPECTED = """
    QUEUED       hold         HELD         wait for the store
    QUEUED       store-key    STORING_KEY  store the key
    QUEUED       begin        BEGINNING    record the beginning
    QUEUED       start        RUNNING      start the agent
    QUEUED       release      RELEASED     leave the lane
    QUEUED       begun        QUEUED
    QUEUED       unstored     QUEUED

    HELD         hold         HELD         wait for the store
    HELD         store-key    STORING_KEY  store the key
    HELD         begin        BEGINNING    record the beginning
    HELD         start        RUNNING      start the agent
    HELD         release      RELEASED     leave the lane

    STORING_KEY  hold         HELD         wait for the store
    STORING_KEY  begin        BEGINNING    record the beginning
    STORING_KEY  start        RUNNING      start the agent
    STORING_KEY  key-refused  RELEASED     refuse the request, leave the lane
    STORING_KEY  release      RELEASED     leave the lane

    BEGINNING    begun        RUNNING      start the agent
    BEGINNING    unstored     HELD         undo the beginning, wait for the store
    BEGINNING    drain        QUEUED       record that the turn starts again
    BEGINNING    release      RELEASED     leave the lane

    RUNNING      answer       ANSWERED
    RUNNING      fail         RUNNING      record the failure
    RUNNING      end          RELEASED     leave the lane
    RUNNING      stop         STOPPING     stop the agent and end the task
    RUNNING      detach       DETACHED     cancel the turn
    RUNNING      give-up      RELEASED     abort the agent, leave the lane

    ANSWERED     fail         RUNNING      record the failure
    ANSWERED     end          RELEASED     leave the lane
    ANSWERED     stop         ANSWERED
    ANSWERED     detach       ANSWERED

    STOPPING     end          STOPPING
    STOPPING     stop         STOPPING
    STOPPING     detach       STOPPING
    STOPPING     stopped      RELEASED     leave the lane
    STOPPING     give-up      RELEASED     leave the lane

    DETACHED     end          RELEASED     leave the lane
    DETACHED     stop         STOPPING     stop the agent and end the task
    DETACHED     detach       DETACHED     cancel the turn
    DETACHED     give-up      RELEASED     abort the agent, leave the lane

    RELEASED     end          RELEASED
    RELEASED     stop         RELEASED
    RELEASED     stopped      RELEASED
    RELEASED     detach       RELEASED
    RELEASED     begun        RELEASED
    RELEASED     unstored     RELEASED
"""
ALLOWED = {
    (state, event): (outcome, effects[0].split(", ") if effects else [])
    for state, event, outcome, *effects in (
        line.split(maxsplit=3) for line in EXPECTED.splitlines() if line
    )
}


@pytest.mark.parametrize(("state", "event"), list(product(RunState, RunEvent)))
def test_every_pair_of_state_and_event(state: RunState, event: RunEvent) -> None:
    expected = ALLOWED.get((state.name, event.value))
    if expected is None:
        with pytest.raises(GatewayBug, match=f"a run that is {state} has no transition by {event}"):
            TABLE[state, event]
    else:
        outcome, effects = TABLE[state, event]
        assert (outcome.name, [effect.value for effect in effects]) == expected


def test_the_list_names_all_there_is() -> None:
    assert {state for state, _ in ALLOWED} == {state.name for state in RunState}
    assert {event for _, event in ALLOWED} == {event.value for event in RunEvent}
    effects = {effect for _, effects in ALLOWED.values() for effect in effects}
    assert effects == {effect.value for effect in Effect}


def test_every_way_into_the_released_state_leaves_the_lane_once() -> None:
    for (before, _), (after, effects) in TABLE.items():
        leaves = effects.count(Effect.LEAVE_LANE)
        is_way_in = after is RunState.RELEASED and before is not RunState.RELEASED
        assert leaves == is_way_in


def test_nothing_leaves_the_released_state() -> None:
    outcomes = {TABLE[pair] for pair in TABLE if pair[0] is RunState.RELEASED}
    assert outcomes == {(RunState.RELEASED, ())}


def test_a_run_that_waits_can_be_released_and_a_run_that_has_started_cannot() -> None:
    assert {state for state, event in TABLE if event is RunEvent.RELEASE} == WAITING


def test_only_a_run_that_waits_starts() -> None:
    starts = {pair[0] for pair, (_, effects) in TABLE.items() if Effect.START_AGENT in effects}
    assert starts == WAITING
