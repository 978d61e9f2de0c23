"""`Problem`: a fault of a configuration, with the key, the value and the remedy."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from trunkline.config.secret import MASK, Secret
from trunkline.model.addresses import without_password
from trunkline.model.errors import ConfigError

Path = tuple[str | int, ...]

# An error cuts longer values, so that it fits a terminal.
SHOWN_CHARS = 80
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Referenced(str):
    """A text that came out of the environment, shown only as it was written."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> "Referenced":
        made = super().__new__(cls, text)
        made.written = written
        return made


class Problem(Struct, frozen=True):
    path: Path
    what: str
    remedy: str = ""
    # The offending value as it may be shown; empty when there is none.
    value: str = ""
    # Other values that the rule reads. The problem is not reported while one of them is bad.
    reads: tuple[Path, ...] = ()
    # Whether the value at `path` is still to be filled in as `value`.
    wants_value: bool = False

    @property
    def key(self) -> str:
        return dotted(self.path)

    def __str__(self) -> str:
        subject = f"{self.key} = {self.value}" if self.value else self.key
        return f"{subject}: {self.what}. {self.remedy}".rstrip()


def bad_value(path: Path, what: str, remedy: str, *, reads: tuple[Path, ...] = ()) -> Problem:
    """A problem of the value at `path`, which is shown with it."""
    return Problem(path, what, remedy, reads=reads, wants_value=True)


class InvalidSettings(ConfigError):
    """Everything that is wrong, at once."""

    def __init__(self, problems: Sequence[Problem], *, source: str) -> None:
        if len(problems) == 1:
            text = f"{source}: {problems[0]}"
        else:
            lines = "".join(f"\n- {problem}" for problem in problems)
            text = f"{source} has {len(problems)} problems:{lines}"
        super().__init__(text)
        self.problems = tuple(problems)
        self.source = source


def dotted(path: Path) -> str:
    """The path as TOML writes it: `agents."acme/rust".skills[0].id`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        bare = step if BARE_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)
        text += f".{bare}" if text else bare
    return text


def shown(value: Any) -> str:
    if isinstance(value, Referenced):
        return json.dumps(without_password(value.written), ensure_ascii=False)
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, dict | Struct):
        return "{…}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(item) for item in value)}]"[:SHOWN_CHARS]
    given = without_password(value) if isinstance(value, str) else value
    text = json.dumps(given, ensure_ascii=False, default=str)
    if len(text) <= SHOWN_CHARS:
        return text
    # The end of a path or URL tells more than its middle.
    return f"{text[: SHOWN_CHARS // 3]}…{text[-2 * SHOWN_CHARS // 3 :]}"


def one_of(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f'Did you mean "{close[0]}"? ' if close else ""
