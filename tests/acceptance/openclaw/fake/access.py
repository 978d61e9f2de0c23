"""Who gets in, as seen with the real gateways on loopback."""

import base64
import hashlib
import time
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

CLIENT_IDS = {"gateway-client", "cli", "test"}


class Refused(Exception):
    def __init__(self, code: str, detail: str = "", *, close: int = 1008, **more: Any) -> None:
        super().__init__(code)
        details = {"code": detail} if detail else {}
        self.error = {"code": code, "message": detail or code, "details": details | more}
        self.close = close


def scopes_for(params: dict[str, Any], *, token: str, nonce: str) -> list[str]:
    """The scopes that the connection gets. Raises Refused."""
    client = params.get("client", {})
    if params.get("maxProtocol", 0) < 4:
        raise Refused("INVALID_REQUEST", "PROTOCOL_MISMATCH", close=1002)
    if client.get("id") not in CLIENT_IDS:
        raise Refused("INVALID_REQUEST")
    given = (params.get("auth") or {}).get("token")
    device = params.get("device")
    if given is None and device is None:
        raise Refused("NOT_PAIRED", "DEVICE_IDENTITY_REQUIRED")
    if given != token:
        raise Refused("INVALID_REQUEST", "AUTH_TOKEN_MISMATCH")
    if device is not None and not _is_proven(device, params, given, nonce):
        raise Refused("INVALID_REQUEST", "DEVICE_AUTH_SIGNATURE_INVALID")
    return [] if client["id"] == "test" else list(params.get("scopes", ()))


def _is_proven(device: dict[str, Any], params: dict[str, Any], token: str, nonce: str) -> bool:
    key, client = _decoded(device["publicKey"]), params["client"]
    signed = "|".join(
        (
            "v3",
            device["id"],
            client["id"],
            client["mode"],
            params["role"],
            ",".join(params["scopes"]),
            str(device["signedAt"]),
            token,
            nonce,
            client["platform"].lower(),
            client.get("deviceFamily", "").lower(),
        )
    )
    if hashlib.sha256(key).hexdigest() != device["id"] or device["nonce"] != nonce:
        return False
    if abs(device["signedAt"] - time.time() * 1000) > 120_000:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(
            _decoded(device["signature"]), signed.encode()
        )
    except InvalidSignature:
        return False
    return True


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
