"""The handshake with OpenClaw: the introduction of the gateway, the hello, and refusals."""

from typing import Any, Final

from msgspec import Struct

from trunkline.backends.json_values import table
from trunkline.backends.openclaw.failures import Trouble, misconfigured, token_refused, unreachable
from trunkline.backends.openclaw.frames import Fault
from trunkline.version import VERSION

# OpenClaw 2026.3 speaks protocol 3, later releases speak 4.
MIN_PROTOCOL: Final = 3
MAX_PROTOCOL: Final = 4
# OpenClaw has a closed list of client ids; this one is for programs.
CLIENT_ID: Final = "gateway-client"
CLIENT_MODE: Final = "backend"
ROLE: Final = "operator"
SCOPES: Final = ("operator.read", "operator.write", "operator.questions")
# Without the second, OpenClaw sends the events of all sessions.
CAPABILITIES: Final = ("tool-events", "session-scoped-events")
# Older releases send no id of their process; the time of their start, to within this, replaces it.
_SAME_START_MS: Final = 2000


class Boot(Struct, frozen=True):
    """The identity of a process of OpenClaw, which changes with a restart."""

    id: str = ""
    started_ms: int = 0

    def is_same(self, other: "Boot") -> bool:
        if self.id or other.id:
            return self.id == other.id
        return abs(self.started_ms - other.started_ms) < _SAME_START_MS


class Hello(Struct, frozen=True, kw_only=True):
    version: str = ""
    protocol: int = 0
    boot: Boot = Boot()
    # None if OpenClaw does not send them.
    scopes: frozenset[str] | None = None
    max_payload_bytes: int = 0
    max_image_bytes: int = 0

    @property
    def attributes_messages(self) -> bool:
        """Whether its history says which message belongs to which run."""
        return bool(self.boot.id)


def connect_params(
    *, token: str, platform: str, device: dict[str, Any] | None = None
) -> dict[str, Any]:
    params: dict[str, Any] = {
        "minProtocol": MIN_PROTOCOL,
        "maxProtocol": MAX_PROTOCOL,
        "client": {
            "id": CLIENT_ID,
            "version": VERSION,
            "platform": platform,
            "mode": CLIENT_MODE,
        },
        "role": ROLE,
        "scopes": list(SCOPES),
        "caps": list(CAPABILITIES),
        "userAgent": f"trunkline/{VERSION}",
    }
    if token:
        params["auth"] = {"token": token}
    if device is not None:
        params["device"] = device
    return params


def read_hello(fields: dict[str, Any], *, now_ms: int) -> Hello:
    """Raises Trouble when it is not a hello, or lacks a right that every turn needs."""
    if fields.get("type") != "hello-ok":
        raise misconfigured(
            "what answers at the url does not greet like OpenClaw", "Correct the backend's `url`."
        )
    server, auth = table(fields.get("server")), table(fields.get("auth"))
    policy, scopes = table(fields.get("policy")), auth.get("scopes")
    uptime_ms = table(fields.get("snapshot")).get("uptimeMs")
    hello = Hello(
        version=str(server.get("version", "")),
        protocol=_number(fields.get("protocol")),
        boot=Boot(str(server.get("bootId", "")), now_ms - _number(uptime_ms)),
        scopes=frozenset(map(str, scopes)) if isinstance(scopes, list) else None,
        max_payload_bytes=_number(policy.get("maxPayload")),
        max_image_bytes=_number(table(policy.get("attachments")).get("maxImageBytes")),
    )
    if hello.scopes is not None and not {"operator.read", "operator.write"} <= hello.scopes:
        raise misconfigured(
            "OpenClaw let us in without the right to run agents",
            "Set `device_identity = true`, and approve the device with `openclaw devices approve`.",
        )
    return hello


_TOKEN: Final = "AUTH_TOKEN_MISMATCH", "AUTH_TOKEN_MISSING", "AUTH_REQUIRED", "AUTH_UNAUTHORIZED"
_NOT_PAIRED: Final = (
    "OpenClaw does not know this device yet",
    "On OpenClaw's machine run `openclaw devices list`, then `openclaw devices approve` with the "
    "id of the request.",
)
# Refusals of `connect`, each with the remedy.
_REFUSALS: Final = {
    "DEVICE_IDENTITY_REQUIRED": (
        "OpenClaw wants to know the device",
        "Set the backend's `token`; from another machine also `device_identity = true`.",
    ),
    "NOT_PAIRED": _NOT_PAIRED,
    "PAIRING_REQUIRED": _NOT_PAIRED,
    "AUTH_SCOPE_MISMATCH": (
        "OpenClaw knows this device with fewer rights",
        "Remove the device with `openclaw devices remove`, and approve it anew.",
    ),
    "PROTOCOL_MISMATCH": (
        "OpenClaw speaks neither protocol 3 nor 4",
        "Run an OpenClaw from 2026.3 to 2026.9, or a newer release of this gateway.",
    ),
}


def refused(fault: Fault) -> Trouble:
    """The reason why `connect` was refused, with the remedy."""
    reason = fault.detail or fault.code
    if reason in _TOKEN:
        return token_refused()
    if reason in _REFUSALS:
        return misconfigured(*_REFUSALS[reason])
    if reason == "AUTH_RATE_LIMITED":
        return Trouble(
            "OpenClaw takes no more attempts to get in for a while",
            "Correct the backend's `token`, and wait.",
            retry_after_s=_seconds(fault),
        )
    if fault.code == "UNAVAILABLE":
        why = f"it is starting or stopping ({fault.detail or 'UNAVAILABLE'})"
        return unreachable(why, retry_after_s=_seconds(fault))
    return misconfigured(
        f"OpenClaw does not let us in: {fault.code} {fault.detail}".rstrip(),
        "Look into OpenClaw's log.",
    )


def _seconds(fault: Fault) -> float | None:
    told = fault.retry_after_ms or table(fault.details).get("retryAfterMs")
    return min(told / 1000, 30.0) if isinstance(told, int | float) and told > 0 else None


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
