"""`Address`: where an OpenClaw is, how the gateway logs in, and which session it uses.

`agent:<id>:…` names the agent of a session, as an OpenClaw with several agents wants it. The
rest of a session key must not look like a channel: OpenClaw's own A2A plugin uses `a2a:`.
"""

import hashlib
import re
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from trunkline.backends.openclaw.settings import OpenClawBackend
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


DEVICE_FILE: Final = "openclaw-device.key"
_TO_WEB: Final = {"ws": "http", "wss": "https"}
_TO_SOCKET: Final = {"http": "ws", "https": "wss"}


class Address(Struct, frozen=True, kw_only=True):
    """Where an OpenClaw is, and how the gateway logs in."""

    url: str
    token: str = ""
    agent_id: str = "main"
    session_key: str = DEFAULT_TEMPLATE
    # The file of the device's key; None for no device.
    device_file: Path | None = None
    platform: str = "linux"
    connect_s: float = 10.0
    # Maximum output of one turn.
    max_output_bytes: int = 16 * 1024 * 1024

    def key_by(self, **ids: str) -> str:
        """The session of a conversation, by the ids of its caller and its context."""
        return key_by(self.session_key, agent_id=self.agent_id, **ids)

    def __repr__(self) -> str:
        return f"Address({self.url}, {self.agent_id})"


class Times(Struct, frozen=True, kw_only=True):
    """Seconds: for a turn to wait for OpenClaw to come back, to accept a run, and to go on
    with a run after its own restart."""

    unreachable_s: float = 60.0
    accept_s: float = 60.0
    recovery_s: float = 60.0


def openclaw_address(settings: OpenClawBackend, data_dir: Path) -> Address:
    schemes = _TO_WEB if settings.surface == "http" else _TO_SOCKET
    scheme, _, rest = settings.url.partition("://")
    return Address(
        url=f"{schemes.get(scheme, scheme)}://{rest}",
        token=settings.token.reveal() if settings.token is not None else "",
        agent_id=settings.agent_id,
        session_key=settings.session_key,
        device_file=data_dir / DEVICE_FILE if settings.device_identity else None,
        platform=sys.platform,
        connect_s=settings.connect_s,
        max_output_bytes=settings.max_output_bytes,
    )
