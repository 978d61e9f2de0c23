"""The header `Trunkline-Call-Chain`: the marks of the agents through which a call came, the first
one first. Programs that run as agents get the same as an environment variable."""

import re
from collections.abc import Sequence
from typing import Final

from trunkline.model.errors import InvalidRequest

HEADER: Final = "Trunkline-Call-Chain"
VARIABLE: Final = "TRUNKLINE_CALL_CHAIN"
# "1" in the environment of a program that may call no other agents.
ISOLATED: Final = "TRUNKLINE_ISOLATED"
# More than any gateway allows; a longer chain would only cost memory.
MAX_MARKS: Final = 64
_MARK: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def encode(chain: Sequence[str]) -> str:
    return ",".join(chain)


def decode(header: str) -> tuple[str, ...]:
    """Raises InvalidRequest."""
    marks = tuple(mark.strip() for mark in header.split(",", MAX_MARKS))
    if len(marks) > MAX_MARKS:
        raise InvalidRequest(f"{HEADER} names more than {MAX_MARKS} agents")
    for mark in marks:
        if not _MARK.fullmatch(mark):
            raise InvalidRequest(
                f"{HEADER} must be a list of marks, separated by commas; pass on the header of the "
                "call that you answer, or leave it out"
            )
    return marks
