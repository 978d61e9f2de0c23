"""Slugs: the last part of a handle."""

import re
import unicodedata

# The slug of a handle that stands for every agent in its target.
EVERY = "*"


def slug(name: str) -> str:
    """The name as the last part of a handle: `Rust expert!` is `rust-expert`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "agent"
