"""The script of the fake model: one step per line of the user's text."""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct


class Say(Struct, frozen=True):
    """Pieces of the answer, with a pause before each."""

    pieces: tuple[str, ...]
    every_s: float = 0.0


class Think(Struct, frozen=True):
    text: str


class CallTool(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]
    again: bool = False


class End(Struct, frozen=True):
    """Ends the answer for a reason: "stop", "tools", "length" or "filter"."""

    reason: str


class Endless(Struct, frozen=True):
    every_s: float


class Flood(Struct, frozen=True):
    size_bytes: int


class Hang(Struct, frozen=True):
    pass


class Cut(Struct, frozen=True):
    pass


class Garbage(Struct, frozen=True):
    pass


class Report(Struct, frozen=True):
    """An error in the middle of a stream."""

    text: str


class Fail(Struct, frozen=True):
    status: int
    after_s: str = ""
    times: int = 0  # 0: always


class Html(Struct, frozen=True):
    pass


Step: TypeAlias = (
    Say | Think | CallTool | End | Endless | Flood | Hang | Cut | Garbage | Report | Fail | Html
)

_PLAIN: dict[str, Step] = {"HANG": Hang(), "CUT": Cut(), "GARBAGE": Garbage(), "HTML": Html()}
COMMANDS = frozenset(
    {
        *("SAY", "SLOW", "TOOL", "AGAIN", "THINK", "LENGTH", "FILTER"),
        *("ENDLESS", "FLOOD", "ERROR", "FAIL", *_PLAIN),
    }
)


def steps_of(text: str) -> tuple[Step, ...]:
    """The steps of a user text. The answer quotes a line that cannot be read."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not lines or lines[0].split()[0] not in COMMANDS:
        return (Say(words(text.strip() or "(nothing)")),)
    steps = []
    for line in lines:
        try:
            steps.append(_step(line))
        except (ValueError, IndexError, msgspec.DecodeError):
            steps.append(Say((f"(the fake model cannot read {line!r})",)))
    return tuple(steps)


def words(text: str) -> tuple[str, ...]:
    """The text in pieces, each a word with the space before it."""
    pieces, start = [], 0
    for at in range(1, len(text)):
        if text[at].isspace() and not text[at - 1].isspace():
            pieces.append(text[start:at])
            start = at
    return (*pieces, text[start:])


def _step(line: str) -> Step:
    word, _, rest = line.partition(" ")
    given = rest.split()
    match word:
        case "SLOW":
            pieces = tuple(f"{' ' if at else ''}w{at}" for at in range(int(given[0])))
            return Say(pieces, _seconds(given[1:]))
        case "TOOL" | "AGAIN":
            name, _, arguments = rest.strip().partition(" ")
            decoded = msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
            return CallTool(name, decoded, word == "AGAIN")
        case "THINK":
            return Think(rest)
        case "LENGTH" | "FILTER":
            return End(word.lower())
        case "ENDLESS":
            return Endless(_seconds(given))
        case "FLOOD":
            return Flood(int(given[0]))
        case "ERROR":
            return Report(rest or "the fake model was told to fail")
        case "FAIL":
            named = dict(zip(given[1::2], given[2::2], strict=False))
            return Fail(int(given[0]), named.get("after", ""), int(named.get("times", "0")))
        case _:
            return _PLAIN[word] if word in _PLAIN else Say(words(rest if word == "SAY" else line))


def _seconds(given: list[str]) -> float:
    return float(given[0]) / 1000 if given else 0.0
