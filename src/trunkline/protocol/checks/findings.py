"""`Report`: collects what is wrong with a message, up to a bound."""

from typing import Any, Final

from trunkline.model.findings import Finding, Severity

# A message of a hostile peer may break a rule in every one of its values.
MAX_FINDINGS: Final = 100
# A value takes a few microseconds. `metadata` and `data` count as one value each.
MAX_VALUES: Final = 50_000
_SHOWN_CHARS: Final = 60
_NAME_CHARS: Final = 100
# A larger integer takes Python long to write in decimals.
_SHOWN_BITS: Final = 128

CHECKS: Final = "Checks of the gateway"


class Report:
    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._more = 0
        self._values = 0
        self._is_exhausted = False

    def error(self, rule: str, pointer: str, text: str) -> None:
        self._add(rule, "error", pointer, text)

    def warning(self, rule: str, pointer: str, text: str) -> None:
        self._add(rule, "warning", pointer, text)

    def note(self, rule: str, pointer: str, text: str) -> None:
        self._add(rule, "note", pointer, text)

    def may_look(self) -> bool:
        """Counts a value. False when too many were looked at."""
        self._values += 1
        if self._values <= MAX_VALUES:
            return True
        self._is_exhausted = True
        return False

    def begin_message(self) -> None:
        """The values of the next message of a stream count anew."""
        self._values = 0

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self._findings)

    @property
    def count(self) -> int:
        return len(self._findings) + self._more

    def since(self, count: int) -> list[Finding]:
        """The findings that came after the first `count`, without the notes of `findings`."""
        return self._findings[count:]

    def findings(self) -> list[Finding]:
        found = [*self._findings]
        if self._more:
            text = f"{self._more:,} more findings are not shown"
            found.append(Finding(CHECKS, "note", "", text))
        if self._is_exhausted:
            text = f"only the first {MAX_VALUES:,} values were checked"
            found.append(Finding(CHECKS, "note", "", text))
        return found

    def _add(self, rule: str, severity: Severity, pointer: str, text: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(Finding(rule, severity, pointer, text))
        else:
            self._more += 1


def below(pointer: str, name: object) -> str:
    """The pointer to a member or an item."""
    token = printable(str(name)[:_NAME_CHARS])
    return f"{pointer}/{token.replace('~', '~0').replace('/', '~1')}"


def printable(text: str) -> str:
    """The text with escapes for characters that are not visible or change the direction."""
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else f"\\u{ord(each):04x}" for each in text])


def shown(value: Any) -> str:
    """A short form of a value, for texts of findings."""
    match value:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case str():
            end = "…" if len(value) > _SHOWN_CHARS else ""
            return f'"{printable(value[:_SHOWN_CHARS])}{end}"'
        case int() if value.bit_length() > _SHOWN_BITS:
            return "a very large number"
        case int() | float():
            return str(value)
        case _:
            return kind_of(value)


def kind_of(value: Any) -> str:
    """The name of the JSON type."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "no JSON value"
