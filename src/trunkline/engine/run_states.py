"""The states of a run. One table; a pair that is missing is an error.

Rule: every change of a run's state is a row here, with the effects that the runtime then carries
out in their order. A run is one turn of an agent, from the queue to the moment it leaves its lane.
"""

from enum import StrEnum
from typing import Final, TypeAlias

from trunkline.model.errors import GatewayBug


class RunState(StrEnum):
    QUEUED = "queued"  # waits for its lane
    HELD = "held"  # has the lane, and waits until the store accepts writes
    STORING_KEY = "storing-key"  # has the lane, and its idempotency key is being stored
    BEGINNING = "beginning"  # the commit that says that it has begun is under way
    RUNNING = "running"  # the agent works, and its output counts
    ANSWERED = "answered"  # the agent answered without a task, and the answer is being stored
    STOPPING = "stopping"  # the agent is told to stop; the run keeps its lane until the task ends
    DETACHED = "detached"  # the agent continues without the gateway, which is shutting down
    RELEASED = "released"  # the lane belongs to the next run; later output does not count


class RunEvent(StrEnum):
    """An event that can change the state of a run."""

    HOLD = "hold"  # the store refuses writes
    STORE_KEY = "store-key"  # the request has a key, and no task that carries it
    BEGIN = "begin"  # the turn may have effects, so its beginning is committed first
    START = "start"  # the turn may start at once
    KEY_REFUSED = "key-refused"  # the store refused the key
    BEGUN = "begun"  # the beginning is committed
    UNSTORED = "unstored"  # the store refused the beginning; the message itself is stored
    DRAIN = "drain"  # the gateway shuts down before the turn started
    ANSWER = "answer"  # the agent ended with a message and needs no task
    FAIL = "fail"  # the agent raised an error
    END = "end"  # the agent has finished
    STOP = "stop"  # a caller cancels, a deadline passes, or the gateway shuts down
    STOPPED = "stopped"  # the agent is stopped, and the end of its task is recorded
    DETACH = "detach"  # the gateway shuts down, and its next process resumes the turn
    GIVE_UP = "give-up"  # the store refused the progress of the turn
    RELEASE = "release"  # the task ended, or the store refused the message


class Effect(StrEnum):
    """An action of the runtime when a run changes its state."""

    WAIT_FOR_STORE = "wait for the store"
    STORE_KEY = "store the key"
    RECORD_BEGINNING = "record the beginning"
    UNDO_BEGINNING = "undo the beginning"
    RECORD_RETRY = "record that the turn starts again"
    START_AGENT = "start the agent"
    RECORD_FAILURE = "record the failure"
    END_TASK = "stop the agent and end the task"
    ABORT_AGENT = "abort the agent"
    CANCEL_TURN = "cancel the turn"
    REFUSE_REQUEST = "refuse the request"
    LEAVE_LANE = "leave the lane"


_Pair: TypeAlias = tuple[RunState, RunEvent]
_Outcome: TypeAlias = tuple[RunState, tuple[Effect, ...]]


class _Table(dict[_Pair, _Outcome]):
    def __missing__(self, pair: _Pair) -> _Outcome:
        raise GatewayBug(f"a run that is {pair[0]} has no transition by {pair[1]}")


_S, _E, _F = RunState, RunEvent, Effect

TABLE: Final = _Table(
    {
        (_S.QUEUED, _E.HOLD): (_S.HELD, (_F.WAIT_FOR_STORE,)),
        (_S.QUEUED, _E.STORE_KEY): (_S.STORING_KEY, (_F.STORE_KEY,)),
        (_S.QUEUED, _E.BEGIN): (_S.BEGINNING, (_F.RECORD_BEGINNING,)),
        (_S.QUEUED, _E.START): (_S.RUNNING, (_F.START_AGENT,)),
        (_S.QUEUED, _E.RELEASE): (_S.RELEASED, (_F.LEAVE_LANE,)),
        # A shutdown returned the run to the queue before its beginning was committed.
        (_S.QUEUED, _E.BEGUN): (_S.QUEUED, ()),
        (_S.QUEUED, _E.UNSTORED): (_S.QUEUED, ()),
        (_S.HELD, _E.HOLD): (_S.HELD, (_F.WAIT_FOR_STORE,)),
        (_S.HELD, _E.STORE_KEY): (_S.STORING_KEY, (_F.STORE_KEY,)),
        (_S.HELD, _E.BEGIN): (_S.BEGINNING, (_F.RECORD_BEGINNING,)),
        (_S.HELD, _E.START): (_S.RUNNING, (_F.START_AGENT,)),
        (_S.HELD, _E.RELEASE): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.STORING_KEY, _E.HOLD): (_S.HELD, (_F.WAIT_FOR_STORE,)),
        (_S.STORING_KEY, _E.BEGIN): (_S.BEGINNING, (_F.RECORD_BEGINNING,)),
        (_S.STORING_KEY, _E.START): (_S.RUNNING, (_F.START_AGENT,)),
        (_S.STORING_KEY, _E.KEY_REFUSED): (_S.RELEASED, (_F.REFUSE_REQUEST, _F.LEAVE_LANE)),
        (_S.STORING_KEY, _E.RELEASE): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.BEGINNING, _E.BEGUN): (_S.RUNNING, (_F.START_AGENT,)),
        (_S.BEGINNING, _E.UNSTORED): (_S.HELD, (_F.UNDO_BEGINNING, _F.WAIT_FOR_STORE)),
        (_S.BEGINNING, _E.DRAIN): (_S.QUEUED, (_F.RECORD_RETRY,)),
        (_S.BEGINNING, _E.RELEASE): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.RUNNING, _E.ANSWER): (_S.ANSWERED, ()),
        (_S.RUNNING, _E.FAIL): (_S.RUNNING, (_F.RECORD_FAILURE,)),
        (_S.RUNNING, _E.END): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.RUNNING, _E.STOP): (_S.STOPPING, (_F.END_TASK,)),
        (_S.RUNNING, _E.DETACH): (_S.DETACHED, (_F.CANCEL_TURN,)),
        (_S.RUNNING, _E.GIVE_UP): (_S.RELEASED, (_F.ABORT_AGENT, _F.LEAVE_LANE)),
        # The answer could not be given. The run fails like any other, with a task.
        (_S.ANSWERED, _E.FAIL): (_S.RUNNING, (_F.RECORD_FAILURE,)),
        (_S.ANSWERED, _E.END): (_S.RELEASED, (_F.LEAVE_LANE,)),
        # Storing the answer is all that is left to do.
        (_S.ANSWERED, _E.STOP): (_S.ANSWERED, ()),
        (_S.ANSWERED, _E.DETACH): (_S.ANSWERED, ()),
        (_S.STOPPING, _E.END): (_S.STOPPING, ()),
        (_S.STOPPING, _E.STOP): (_S.STOPPING, ()),
        (_S.STOPPING, _E.DETACH): (_S.STOPPING, ()),
        (_S.STOPPING, _E.STOPPED): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.STOPPING, _E.GIVE_UP): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.DETACHED, _E.END): (_S.RELEASED, (_F.LEAVE_LANE,)),
        (_S.DETACHED, _E.STOP): (_S.STOPPING, (_F.END_TASK,)),
        (_S.DETACHED, _E.DETACH): (_S.DETACHED, (_F.CANCEL_TURN,)),
        (_S.DETACHED, _E.GIVE_UP): (_S.RELEASED, (_F.ABORT_AGENT, _F.LEAVE_LANE)),
        # The agent ends, or its stop does, after the run has left its lane.
        (_S.RELEASED, _E.END): (_S.RELEASED, ()),
        (_S.RELEASED, _E.STOP): (_S.RELEASED, ()),
        (_S.RELEASED, _E.STOPPED): (_S.RELEASED, ()),
        (_S.RELEASED, _E.DETACH): (_S.RELEASED, ()),
        (_S.RELEASED, _E.BEGUN): (_S.RELEASED, ()),
        (_S.RELEASED, _E.UNSTORED): (_S.RELEASED, ()),
    }
)

# The agent has not started.
WAITING: Final = frozenset({_S.QUEUED, _S.HELD, _S.STORING_KEY, _S.BEGINNING})
