"""The record of what the model was asked."""

from typing import Any

from msgspec import Struct


class SeenRequest(Struct, kw_only=True):
    """One request. `outcome` moves on from "answering" once; the rest stays as it came."""

    number: int
    method: str
    path: str
    # By their names in lower case.
    headers: dict[str, str]
    body: Any
    # The last user text, without decorations.
    text: str = ""
    outcome: str = "answering"
