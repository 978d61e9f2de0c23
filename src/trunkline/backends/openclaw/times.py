"""How long is waited for what."""

from msgspec import Struct


class Times(Struct, frozen=True, kw_only=True):
    """Seconds: for a turn to wait for OpenClaw to come back, to accept a run, and to go on
    with a run after its own restart."""

    unreachable_s: float = 60.0
    accept_s: float = 60.0
    recovery_s: float = 60.0
