"""The language of the scripted agent: one command per line."""

import re
from typing import Any

import msgspec
from msgspec import Struct

COMMANDS = (
    "say",
    "stream",
    "replace",
    "preview",
    "block",
    "stage",
    "stage-end",
    "note",
    "tool",
    "tool-event",
    "summary",
    "artifact",
    "chunks",
    "final",
    "parts",
    "ask",
    "auth",
    "reply",
    "refuse",
    "fail",
    "crash",
    "delay",
    "hang",
    "wait",
    "open",
    "ignore-cancel",
    "show",
)

# A semicolon ends a command only where the next one begins, so that text may hold some.
_BREAK = re.compile(rf"\n|;(?=\s*(?:{'|'.join(COMMANDS)})(?:\s|;|$))")


class Command(Struct, frozen=True):
    name: str
    rest: str = ""

    def words(self, count: int) -> list[str]:
        """The first words, and as the last of them all that remains."""
        words = self.rest.split(maxsplit=count - 1)
        if len(words) < count:
            raise ScriptError(f"{self.name}: {count} words expected, in {self.rest!r}")
        return words

    def number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ScriptError(f"{self.name}: {text!r} is not a number") from None

    def json(self, text: str) -> Any:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ScriptError(f"{self.name}: {text!r} is not JSON: {error}") from None

    def repeats(self, text: str) -> tuple[int, float]:
        """`10` or `10 every 0.5`: how often, and the seconds before each."""
        count, _, every = text.partition("every")
        return int(self.number(count.strip() or "1")), self.number(every.strip() or "0")


class ScriptError(ValueError):
    """The script is at fault; the text is for whoever wrote it."""


def parse(text: str) -> tuple[Command, ...]:
    """The commands of a message; none when it does not begin with one."""
    lines = [line.strip() for line in _BREAK.split(text.strip()) if line.strip()]
    if not lines or lines[0].split()[0] not in COMMANDS:
        return ()
    return tuple(_command(line) for line in lines)


def _command(line: str) -> Command:
    word, _, rest = line.partition(" ")
    return Command(word, rest.strip()) if word in COMMANDS else Command("say", line)
