"""The codes that a connection between relay and host is closed with, and what each one ends."""

from typing import Final

from msgspec import Struct

# RFC 6455, 7.4.1, and the registry of IANA.
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
RESTART: Final = 1012
# The WebSocket itself has found a message too large. It would be sent again after a resume.
TOO_BIG: Final = 1009
# Ours are those of HTTP with 4000 added.
BAD_FRAME: Final = 4400
NOT_AUTHENTICATED: Final = 4401
FORBIDDEN: Final = 4403
SILENT: Final = 4408
REPLACED: Final = 4409
OUT_OF_ORDER: Final = 4412
TOO_LARGE: Final = 4413
OVER_LIMIT: Final = 4429

# A host that gets one of these must not try again by itself: with the same token and the same
# agents it would be closed again, or close another host.
FATAL: Final = frozenset({NOT_AUTHENTICATED, FORBIDDEN, REPLACED})
# After any other close, and after a connection that was lost, the session can be resumed.
_ENDS_SESSION: Final = FATAL | {
    NORMAL,
    GOING_AWAY,
    RESTART,
    TOO_BIG,
    BAD_FRAME,
    OUT_OF_ORDER,
    TOO_LARGE,
    OVER_LIMIT,
}


class Close(Struct, frozen=True):
    code: int
    reason: str


def ends_session(code: int) -> bool:
    return code in _ENDS_SESSION
