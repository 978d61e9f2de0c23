"""Continuations that this gateway issued, told from those that somebody made up.

Only a target that the configuration does not have is signed: a configured one is let in
by the configuration, and taking it out of there is how an operator closes it.
"""

import hashlib
import hmac
from collections.abc import Sequence

import msgspec


def signature_of(key: bytes, url: str, card_path: str, transports: Sequence[str]) -> str:
    text = msgspec.json.encode(["remote_agent.target.1", url, card_path, *transports])
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def is_signed(
    key: bytes, signature: str, url: str, card_path: str, transports: Sequence[str]
) -> bool:
    wanted = signature_of(key, url, card_path, transports)
    return hmac.compare_digest(signature.encode(), wanted.encode())
