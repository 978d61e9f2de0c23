"""`Finding`: what a check of a message or a card by the rules of A2A found; and the verdict on a
signature of a card."""

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["error", "warning", "note"]
Verdict: TypeAlias = Literal["valid", "invalid", "unknown_key"]


class Finding(Struct, frozen=True):
    # The specification with the section, or the topic where the section has no number.
    rule: str
    # `error` breaks a rule, `warning` a recommendation or what many implementations rely on; a
    # `note` is for information.
    severity: Severity
    # A JSON pointer (RFC 6901) into the message; empty for the message as a whole.
    pointer: str
    text: str


class SignatureStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of one signature of a card."""

    key_id: str
    algorithm: str
    verdict: Verdict
    # For people.
    text: str


# The texts of their members in the HTTP interface.
FINDING_TEXTS = {
    "Finding.rule": "The specification and the section, or the topic where it has no number.",
    "Finding.severity": "`error` breaks a rule; `warning` breaks a recommendation, or what many "
    "implementations rely on; `note` is for information.",
    "Finding.pointer": "Where in the message, as a JSON pointer (RFC 6901). For a stream it begins "
    "with the number of the event, from 0.",
    "Finding.text": "What is wrong, for people.",
}
