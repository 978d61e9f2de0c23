"""The request that carries a message to the upstream agent: context, message and headers."""

import hashlib

import msgspec

from trunkline.backends.a2a.notes import Ask
from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.values import Message
from trunkline.ports.backend import TurnRequest

_encode = msgspec.json.Encoder().encode


def context_for(turn: TurnRequest) -> str:
    """The upstream's context for the caller's context.

    The hash hides the caller, survives a restart, and differs between callers that choose the
    same context id.
    """
    whose = (turn.agent, turn.tenant, turn.principal, turn.context_id)
    return hashlib.sha256(_encode(whose)).hexdigest()[:32]


def request_for(turn: TurnRequest, ask: Ask, *, context_id: str, waits: bool) -> SendMessageRequest:
    """`context_id` is used when `ask` names no context. `waits`: whether the upstream may answer
    when the work is done (A2A 1.0 `returnImmediately`)."""
    message = turn.message
    return SendMessageRequest(
        message=Message(
            # Callers may choose the same ids. The run id is unique, and the same in a second send.
            message_id=turn.run_id,
            context_id=ask.context or context_id,
            task_id=ask.task,
            role=message.role,
            parts=message.parts,
            metadata=message.metadata,
            extensions=message.extensions,
            # The caller refers to tasks of the gateway, which the upstream does not know.
            reference_task_ids=(ask.after,) if ask.after else (),
        ),
        configuration=SendMessageConfiguration(
            accepted_output_modes=turn.accepted_output_modes, return_immediately=not waits
        ),
        metadata=turn.metadata,
    )


def headers_for(turn: TurnRequest) -> dict[str, str]:
    """The extensions that the caller asked for; A2A 0.3 reads the header with `X-`."""
    if not turn.extensions:
        return {}
    listed = ", ".join(turn.extensions)
    return {"A2A-Extensions": listed, "X-A2A-Extensions": listed}
