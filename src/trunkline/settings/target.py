"""Where a Python agent is: a file or a module, and perhaps an attribute in it."""

import re
import unicodedata

# The slug of a handle that stands for every agent in its target.
EVERY = "*"


def split_target(target: str) -> tuple[str, str]:
    """File or module, and the attribute; a drive letter of Windows is part of the file."""
    place, colon, attribute = target.rpartition(":")
    if not colon or "/" in attribute or "\\" in attribute or attribute.endswith(".py"):
        return target, ""
    return place, attribute


def join_target(place: str, attribute: str) -> str:
    return f"{place}:{attribute}" if attribute else place


def is_file_target(target: str) -> bool:
    return split_target(target)[0].endswith(".py")


def slug(name: str) -> str:
    """The name as the last part of a handle: `Rust expert!` is `rust-expert`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "agent"
