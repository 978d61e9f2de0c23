"""`Finding`: one result of a check of a configured part."""

from typing import Literal

from msgspec import Struct


class Finding(Struct, frozen=True):
    level: Literal["ok", "warning", "error"]
    what: str
    remedy: str = ""
