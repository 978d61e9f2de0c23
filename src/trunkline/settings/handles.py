"""Handles of agents, `owner/slug`, and `owner/*` for every agent in a Python target."""

import re
import unicodedata

# The slug of a handle that stands for every agent in its target.
EVERY = "*"


def slug(name: str) -> str:
    """The name as the last part of a handle: `Rust expert!` is `rust-expert`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "agent"


def stands_for_many(handle: str) -> bool:
    return handle.endswith(f"/{EVERY}")


def handle_of(handle: str, name: str) -> str:
    return f"{handle.partition('/')[0]}/{slug(name)}"
