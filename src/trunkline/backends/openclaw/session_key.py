"""Which OpenClaw session a conversation has.

`agent:<id>:…` names the agent, as an OpenClaw with several agents wants it. What follows must
not look like a channel: `a2a:` is the one that OpenClaw's own A2A plugin uses.
"""

import hashlib
import re
from typing import Final

from trunkline.ports.backend import TurnRequest

DEFAULT_TEMPLATE: Final = "agent:{agent_id}:br-{context}"
_UNSAFE: Final = re.compile(r"[^a-z0-9_.-]+")
_READABLE: Final = 48
_DIGEST: Final = 16


def session_key_of(turn: TurnRequest, template: str, *, agent_id: str) -> str:
    """The session of a turn: the one that the record of its task names, else our own."""
    bound = turn.session.bound_key if turn.session is not None else ""
    return bound or key_by(
        template,
        agent_id=agent_id,
        agent=turn.agent,
        tenant=turn.tenant,
        principal=turn.principal,
        context_id=turn.context_id,
    )


def key_by(
    template: str, *, agent_id: str, agent: str, tenant: str, principal: str, context_id: str
) -> str:
    """Two conversations never share a key, whoever chose the ids, and however keys are folded.

    The digest tells them apart; what stands before it is for people. OpenClaw keeps keys in
    lower case.
    """
    whole = "\0".join((agent, tenant, principal, context_id))
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
    readable = _UNSAFE.sub("-", context_id.lower())[:_READABLE].strip("-.")
    context = f"{readable}-{digest}" if readable else digest
    return template.replace("{agent_id}", agent_id.lower()).replace("{context}", context)
