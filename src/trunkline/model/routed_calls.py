"""`CallOrigin` and `TaskRecord`: what a message of one agent to another carries beside its content.

Both come from the gateway, never from the content of a message: a text that looks like a call or
like its answer is only a text.
"""

from msgspec import Struct

from trunkline.model.principal import Principal


class CallOrigin(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How a turn came about that another agent asked for, or that the answer of one has started.

    The journal keeps it with the message, so that a restart does not change whose rights the turn
    has, nor how deep it is.
    """

    # The id of the call that the turn answers; empty for a turn that an answer has started.
    id: str = ""
    # The id of the first call of the chain, from which this one follows.
    root: str = ""
    # How many calls lead to the turn.
    depth: int = 0
    # How many turns of the context came about without a message from outside.
    turns: int = 0
    # On whose behalf the turn runs.
    principal: Principal


class TaskRecord(Struct, frozen=True, gc=False):
    """A record to keep with the task of a message, for the participant of a feature."""

    kind: str
    id: str
    body: bytes
