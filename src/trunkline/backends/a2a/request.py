"""The request that carries a message to the upstream agent: context, message and headers."""

import hashlib

import msgspec

from trunkline.backends.a2a.notes import Ask
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.values import Message
from trunkline.ports.backend import TurnRequest

_encode = msgspec.json.Encoder().encode


def context_for(turn: TurnRequest) -> str:
    """The context of the upstream that belongs to ours.

    It tells nothing of the caller, is the same at every start, and no two callers share one,
    whatever ids they choose.
    """
    whose = (turn.agent, turn.tenant, turn.principal, turn.context_id)
    return hashlib.sha256(_encode(whose)).hexdigest()[:32]


def request_for(turn: TurnRequest, ask: Ask, *, context_id: str, waits: bool) -> SendMessageRequest:
    """`context_id` is where nothing else is known. `waits`: whether the answer may take as
    long as the work does."""
    message = turn.message
    return SendMessageRequest(
        message=Message(
            # Ours, because callers choose theirs as they like; the same if it is sent again.
            message_id=turn.run_id,
            context_id=ask.context or context_id,
            task_id=ask.task,
            role=message.role,
            parts=message.parts,
            metadata=message.metadata,
            extensions=message.extensions,
            # Tasks that the caller refers to are ours, and mean nothing there.
            reference_task_ids=(ask.after,) if ask.after else (),
        ),
        configuration=SendMessageConfiguration(
            accepted_output_modes=turn.accepted_output_modes, return_immediately=not waits
        ),
        metadata=turn.metadata,
    )


def headers_for(turn: TurnRequest) -> dict[str, str]:
    """The extensions that the caller asked to use; 0.3 knows the header by its old name."""
    if not turn.extensions:
        return {}
    listed = ", ".join(turn.extensions)
    return {"A2A-Extensions": listed, "X-A2A-Extensions": listed}
