"""`Address`: where an OpenClaw is, how the gateway logs in, and how long it waits."""

import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

from trunkline.backends.openclaw.session_key import DEFAULT_TEMPLATE, key_by
from trunkline.backends.openclaw.settings import OpenClawBackend

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
    # What may be said in one turn.
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
