"""Handles of agents: `owner/slug`."""

import re
from typing import Final

# An owner may be the login of a person elsewhere, with upper-case letters in it. Two owners whose
# names differ only in case are one: `folded` is the same for both.
OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
# The slug of a handle that stands for every agent in its target.
EVERY: Final = "*"
HANDLE: Final = re.compile(rf"{OWNER.pattern}/({SLUG.pattern}|\*)")


def folded(handle: str) -> str:
    """The handle as it is compared with others."""
    return handle.lower()
