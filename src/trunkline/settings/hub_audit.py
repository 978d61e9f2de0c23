"""`HubAuditSettings`: what the audit of the hub keeps, and for how long."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Problem, bad_value

_MAX_TEXT_CHARS = 100
_MAX_WILDCARDS = 2


class HubAuditSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit of the hub: a row for every attempt to call an agent and for every administrative
    change. It cannot be turned off."""

    retention_days: Annotated[
        float,
        doc("Days after which rows are deleted; 0 keeps them for ever.", ge=0, le=36_500),
    ] = 365.0
    keep_questions: Annotated[
        bool,
        doc(
            "Keep the first 500 characters of each message, without secrets and e-mail addresses, "
            "for the inbound report. Off, because the task has the message already, and rows of "
            "the audit cannot be deleted one by one."
        ),
    ] = False
    redact: Annotated[
        tuple[str, ...],
        doc(
            "Further texts to hide in kept messages. `*` stands for any characters of a word, at "
            "most twice in a text, and `#` for a digit: `CASE-######`."
        ),
    ] = ()


def hub_audit_problems(audit: HubAuditSettings) -> Iterator[Problem]:
    for text in audit.redact:
        if not text.strip("* ") or len(text) > _MAX_TEXT_CHARS:
            what = f"a text of 1 to {_MAX_TEXT_CHARS} characters beside `*` is needed"
        elif text.count("*") > _MAX_WILDCARDS:
            what = f"{text!r} has more than {_MAX_WILDCARDS} wildcards"
        else:
            continue
        yield bad_value(
            ("hub", "audit", "redact"), what, "Write out more of the text, or split it in two."
        )
