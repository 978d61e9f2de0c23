"""`Address`: where an OpenClaw is, how the gateway logs in and how long it waits there.

A session key `agent:<id>:…` names the agent of the session, which an OpenClaw with several agents
requires. The rest of the key must not look like a channel: OpenClaw's own A2A plugin uses `a2a:`.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from trunkline.backends.kind import Resources
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.ports.backend import TurnRequest

DEVICE_FILE: Final = "openclaw-device.key"
_UNSAFE: Final = re.compile(r"[^a-z0-9_.-]+")
_READABLE: Final = 48
_DIGEST: Final = 16
_TO_WEB: Final = {"ws": "http", "wss": "https"}
_TO_SOCKET: Final = {"http": "ws", "https": "wss"}


class Address(Struct, frozen=True, kw_only=True):
    """The settings of the backend, with the URL of its surface and without a wrapped token."""

    url: str
    token: str = ""
    agent_id: str = "main"
    session_key: str = "agent:{agent_id}:br-{context}"
    # The file of the device's key; None for no device.
    device_file: Path | None = None
    connect_s: float = 10.0
    accept_s: float = 60.0
    unreachable_s: float = 60.0
    recovery_s: float = 60.0
    idle_s: float = 300.0
    max_output_bytes: int = 16 * 1024 * 1024
    # Whether it must be at a public address.
    public_only: bool = False

    def session_of(self, turn: TurnRequest) -> str:
        """The session of a turn: the one that the record of its task names, else our own."""
        bound = turn.session.bound_key if turn.session is not None else ""
        return bound or self.session_key_of(
            agent=turn.agent,
            tenant=turn.tenant,
            principal=turn.principal,
            context_id=turn.context_id,
        )

    def session_key_of(self, *, agent: str, tenant: str, principal: str, context_id: str) -> str:
        """The session of a conversation. Two conversations never share a key, whichever ids their
        callers choose.

        The digest tells them apart; the text before it is for people. OpenClaw keeps keys in
        lower case.
        """
        whole = "\0".join((agent, tenant, principal, context_id))
        digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
        readable = _UNSAFE.sub("-", context_id.lower())[:_READABLE].strip("-.")
        context = f"{readable}-{digest}" if readable else digest
        return self.session_key.replace("{agent_id}", self.agent_id.lower()).replace(
            "{context}", context
        )

    def __repr__(self) -> str:
        return f"Address({self.url}, {self.agent_id})"


def openclaw_address(settings: OpenClawBackend, resources: Resources) -> Address:
    schemes = _TO_WEB if settings.surface == "http" else _TO_SOCKET
    scheme, _, rest = settings.url.partition("://")
    names = [name for name in Address.__struct_fields__ if name != "device_file"]
    kept = {name: getattr(settings, name) for name in names}
    kept["url"] = f"{schemes.get(scheme, scheme)}://{rest}"
    kept["token"] = settings.token.reveal() if settings.token is not None else ""
    kept["public_only"] = settings.public_only and not resources.allow_private
    device_file = resources.data_dir / DEVICE_FILE if settings.device_identity else None
    return Address(**kept, device_file=device_file)
