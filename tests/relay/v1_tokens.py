"""Tokens of relays of protocol v1: JSON Web Tokens with HS256 and one secret."""

import base64
import hashlib
import hmac
import json
from typing import Any

from trunkline.clock import SystemClock

SECRET = "the-secret-of-the-relay-and-its-agents"


def _now_s() -> float:
    return SystemClock().now_ms() / 1000


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signature(signed: str, secret: str) -> str:
    return _part(hmac.digest(secret.encode(), signed.encode(), hashlib.sha256))


def token(secret: str = SECRET, *, lasts_s: float = 3600, **claims: Any) -> str:
    header = _part(b'{"alg":"HS256","typ":"JWT"}')
    payload = _part(json.dumps({"exp": int(_now_s() + lasts_s), **claims}).encode())
    return f"{header}.{payload}.{_signature(f'{header}.{payload}', secret)}"


def agent_token(tenant: str = "acme", agent: str = "helper", **claims: Any) -> str:
    return token(
        **{
            "tenant": tenant,
            "agent_id": agent,
            "role": "agent",
            "sub": f"agent:{tenant}:{agent}",
            **claims,
        }
    )


def claims_of(text: str, secret: str = SECRET) -> dict[str, Any] | None:
    """The claims, if the token was signed with the secret and has not ended."""
    signed, _, signature = text.rpartition(".")
    if not hmac.compare_digest(signature, _signature(signed, secret)):
        return None
    payload = signed.partition(".")[2]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * 3))
    return claims if claims["exp"] > _now_s() else None
