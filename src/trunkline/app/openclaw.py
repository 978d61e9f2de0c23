"""Settings of an OpenClaw to the backend that calls it."""

import sys
from pathlib import Path
from typing import Final

from trunkline.backends.openclaw import Address, OpenClawBackend, Times, doctor
from trunkline.backends.openclaw.completions import OpenClawHttpBackend
from trunkline.backends.openclaw.web import check_completions
from trunkline.model.errors import ConfigError
from trunkline.ports.backend import Backend
from trunkline.ports.clock import Clock
from trunkline.ports.doctor import Finding
from trunkline.settings import backends as kinds
from trunkline.settings import data_dir

DEVICE_FILE: Final = "openclaw-device.key"
_TO_WEB: Final = {"ws": "http", "wss": "https"}
_TO_SOCKET: Final = {"http": "ws", "https": "wss"}


def make_openclaw(
    settings: kinds.OpenClawBackend, clock: Clock, data: Path | None = None
) -> Backend:
    """`data` is the folder that the key of the device is kept in."""
    address = openclaw_address(settings, data)
    if settings.surface == "http":
        return OpenClawHttpBackend(address, idle_s=settings.idle_s)
    times = Times(
        unreachable_s=settings.unreachable_s,
        accept_s=settings.accept_s,
        recovery_s=settings.recovery_s,
    )
    return OpenClawBackend(address, clock=clock, times=times)


async def check_openclaw(
    settings: kinds.OpenClawBackend, clock: Clock, data: Path | None = None
) -> list[Finding]:
    """What a doctor finds; runs no turn."""
    address = openclaw_address(settings, data)
    if settings.surface == "http":
        return await check_completions(address)
    try:
        return await doctor.check_openclaw(address, clock=clock)
    except ConfigError as error:
        return [Finding("error", error.message)]


def openclaw_address(settings: kinds.OpenClawBackend, data: Path | None = None) -> Address:
    schemes = _TO_WEB if settings.surface == "http" else _TO_SOCKET
    scheme, _, rest = settings.url.partition("://")
    return Address(
        url=f"{schemes.get(scheme, scheme)}://{rest}",
        token=settings.token.reveal() if settings.token is not None else "",
        agent_id=settings.agent_id,
        session_key=settings.session_key,
        device_file=(data or data_dir()) / DEVICE_FILE if settings.device_identity else None,
        platform=sys.platform,
        connect_s=settings.connect_s,
        max_output_bytes=settings.max_output_bytes,
    )
