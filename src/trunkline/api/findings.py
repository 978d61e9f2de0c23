"""`Finding`: what a check of a message or a card by the rules of A2A found."""

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning", "note"]
Verdict: TypeAlias = Literal["valid", "invalid", "unknown_key"]


class Finding(Struct, frozen=True, kw_only=True):
    """Something that a rule does not allow."""

    # The section of the specification.
    rule: str
    severity: Severity
    # A JSON pointer (RFC 6901) to the member.
    pointer: str
    text: str


class SignatureVerdict(Struct, frozen=True, kw_only=True, rename="camel"):
    """A signature of a card, and whether it is good."""

    key_id: str
    algorithm: str
    verdict: Verdict
    text: str
