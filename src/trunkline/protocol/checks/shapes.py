"""`Shape`: the members of an object and their rules, as a table that both versions fill."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, field

from trunkline.protocol.checks.findings import Report, below, shown

# Adds what is wrong with the value at the pointer.
Check: TypeAlias = Callable[[Report, Any, str], None]
Tree: TypeAlias = dict[str, Any]


class Member(Struct, frozen=True):
    check: Check
    is_required: bool = False


class Shape(Struct, frozen=True, kw_only=True):
    """Checks an object. It is a `Check` itself."""

    name: str
    rule: str
    members: Mapping[str, Member]
    # Names that belong to another version of A2A, and the hint for them.
    foreign: Mapping[str, str] = field(default_factory=dict)
    # Names that are tolerated without a word, such as those of 0.3 in a card of both versions.
    ignored: Collection[str] = ()
    # Rules between members.
    also: Check | None = None
    # Null stands for an absent member in ProtoJSON, except where null is a value.
    nullable: Collection[str] = ()
    # The proto names of members, which a sender of ProtoJSON may write too. None where the
    # version knows camelCase alone.
    takes_snake: bool = True

    def __call__(self, report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            report.error(self.rule, pointer, f"{self.name} must be an object, not {shown(value)}")
            return
        tree = self._camel(report, value, pointer)
        for name, member in self.members.items():
            given = tree.get(name)
            if name in tree and (given is not None or name in self.nullable):
                if report.may_look():
                    member.check(report, given, below(pointer, name))
            elif member.is_required:
                report.error(self.rule, pointer, f"{self.name} has no {name}, which is required")
            elif name in tree:
                report.note(
                    self.rule, below(pointer, name), f"{name} is null; an absent member is left out"
                )
        if self.also is not None:
            self.also(report, tree, pointer)

    def _camel(self, report: Report, value: Tree, pointer: str) -> Tree:
        """The object with the names of its shape. Adds what is wrong with the names."""
        found: Tree = {}
        for name, given in value.items():
            if name in self.members:
                found[name] = given
                continue
            if not report.may_look():
                break
            if name in self.ignored:
                continue
            at = below(pointer, name)
            known = _camel_of(name) if self.takes_snake else ""
            if known in self.members and known not in value:
                found[known] = given
                text = f"{shown(name)} is the name in the proto; JSON has {known}"
                report.warning(f"{' '.join(self.rule.split()[:2])} JSON names", at, text)
            elif name in self.foreign:
                report.warning(self.rule, at, self.foreign[name])
            else:
                text = f"{self.name} has no member {shown(name)}; readers ignore it"
                report.note(self.rule, at, text)
        return found


def required(check: Check) -> Member:
    return Member(check, is_required=True)


def optional(check: Check) -> Member:
    return Member(check)


def anything(report: Report, value: Any, pointer: str) -> None:
    """Any JSON value."""


def nothing(rule: str, what: str, *values: Any) -> Check:
    """Only one of these values."""

    def check(report: Report, value: Any, pointer: str) -> None:
        if value not in values:
            report.error(rule, pointer, f"{what}, not {shown(value)}")

    return check


def text(rule: str, *, may_be_empty: bool = True) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be a text, not {shown(value)}")
        elif not value and not may_be_empty:
            report.error(rule, pointer, "must not be empty")

    return check


def boolean(rule: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, bool):
            report.error(rule, pointer, f"must be true or false, not {shown(value)}")

    return check


def integer(rule: str, *, low: int | None = None, high: int | None = None) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        number = value
        # ProtoJSON reads integers from texts and from floats without a fraction.
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            number = int(value)
        if isinstance(value, float) and value.is_integer():
            number = int(value)
        if isinstance(number, bool) or not isinstance(number, int):
            report.error(rule, pointer, f"must be an integer, not {shown(value)}")
        elif low is not None and number < low:
            report.error(rule, pointer, f"must be at least {low}, not {shown(value)}")
        elif high is not None and number > high:
            report.error(rule, pointer, f"must be at most {high}, not {shown(value)}")

    return check


_INTEGER: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def free_object(rule: str) -> Check:
    """An object with any members, such as metadata."""

    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            report.error(rule, pointer, f"must be an object, not {shown(value)}")

    return check


def list_of(item: Check, rule: str, *, at_least_one: bool = False) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, list | tuple):
            report.error(rule, pointer, f"must be a list, not {shown(value)}")
            return
        if at_least_one and not value:
            report.error(rule, pointer, "must hold at least one item")
        for index, each in enumerate(value):
            if not report.may_look():
                return
            item(report, each, below(pointer, index))

    return check


def map_of(item: Check, rule: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            report.error(rule, pointer, f"must be an object, not {shown(value)}")
            return
        for name, each in value.items():
            if not report.may_look():
                return
            item(report, each, below(pointer, name))

    return check


def one_of(rule: str, names: Collection[str], hints: Mapping[str, str] | None = None) -> Check:
    """One of these texts. `hints` has the right name for names of other versions."""
    known = ", ".join(names)

    def check(report: Report, value: Any, pointer: str) -> None:
        if isinstance(value, str) and value in names:
            return
        hint = (hints or {}).get(value) if isinstance(value, str) else None
        tail = f"; here it is {hint}" if hint else f"; one of {known}"
        report.error(rule, pointer, f"has the unknown value {shown(value)}{tail}")

    return check


def base64_text(rule: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be base64 in a text, not {shown(value)}")
        elif len(value) % 4 == 0 and _BASE64.fullmatch(value):
            return
        elif _BASE64_URL.fullmatch(value):
            what = "uses the alphabet for URLs, or lacks its padding"
            report.warning(rule, pointer, f"{what}; the standard form of base64 is expected")
        else:
            report.error(rule, pointer, "is not base64")

    return check


_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}", re.ASCII)
_BASE64_URL: Final = re.compile(r"[A-Za-z0-9+/_-]*+={0,2}", re.ASCII)


def media_type(rule: str) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be a text, not {shown(value)}")
        elif value and _MEDIA_TYPE.match(value) is None:
            report.warning(rule, pointer, f"{shown(value)} is no media type such as text/plain")

    return check


_TOKEN: Final = r"[A-Za-z0-9!#$&^_.+*-]{1,127}+"
_MEDIA_TYPE: Final = re.compile(rf"{_TOKEN}/{_TOKEN}\s*(?:;|\Z)", re.ASCII)


def link(rule: str) -> Check:
    """A URL that should be absolute, because there is nothing that it is relative to."""

    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be a text, not {shown(value)}")
        elif _SCHEME.match(value) is None:
            report.warning(rule, pointer, f"{shown(value)} is no absolute URL")

    return check


def url(rule: str, *, schemes: Collection[str] = (), is_required: bool = True) -> Check:
    """An absolute URL. With `schemes`, others are a warning."""

    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be a text, not {shown(value)}")
            return
        if not value and not is_required:
            return
        scheme = _SCHEME.match(value)
        if scheme is None:
            report.error(rule, pointer, f"{shown(value)} is no absolute URL")
        elif schemes and scheme[1].lower() not in schemes:
            known = " or ".join(schemes)
            report.warning(rule, pointer, f"{shown(value)} has another scheme than {known}")
        elif schemes and not _host_of(value):
            report.error(rule, pointer, f"{shown(value)} names no host")

    return check


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31}):\S", re.ASCII)


def _host_of(value: str) -> str:
    try:
        return urlsplit(value[:4096]).hostname or ""
    except ValueError:
        return ""


def uri(rule: str) -> Check:
    """The name of an extension, which is a URI."""

    def check(report: Report, value: Any, pointer: str) -> None:
        if not isinstance(value, str):
            report.error(rule, pointer, f"must be a URI, not {shown(value)}")
        elif _SCHEME.match(value) is None:
            report.warning(rule, pointer, f"{shown(value)} is no URI")

    return check


def timestamp(rule: str, *, is_utc: bool) -> Check:
    """ISO 8601; with `is_utc` as 1.0 has it, with `Z` and milliseconds."""

    def check(report: Report, value: Any, pointer: str) -> None:
        found = _INSTANT.fullmatch(value) if isinstance(value, str) else None
        if found is None or not _is_date(found):
            report.error(rule, pointer, f"{shown(value)} is no time of ISO 8601")
            return
        fraction, zone = found[7], found[8]
        if not is_utc:
            if zone is None:
                report.warning(rule, pointer, "has no offset, so the instant is not known")
        elif zone != "Z":
            said = f"the offset {zone}" if zone else "no offset"
            report.error(rule, pointer, f"must be UTC and end in Z, and has {said}")
        elif fraction is None or len(fraction) != 3:
            report.note(rule, pointer, "should have milliseconds, so three digits")

    return check


_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,12}))?(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def _is_date(found: "re.Match[str]") -> bool:
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    try:
        date(year, month, day)
    except ValueError:
        return False
    return hour < 24 and minute < 60 and second <= 60


def exactly_one(
    rule: str, what: str, names: Collection[str], nullable: Collection[str] = ()
) -> Check:
    """Rule between members: exactly one of the names is set."""
    known = ", ".join(names)

    def check(report: Report, value: Any, pointer: str) -> None:
        given = [name for name in names if has(value, name) or (name in nullable and name in value)]
        if len(given) != 1:
            said = " and ".join(given) if given else "none"
            report.error(rule, pointer, f"{what} has exactly one of {known}; it has {said}")

    return check


def every(*checks: Check) -> Check:
    def check(report: Report, value: Any, pointer: str) -> None:
        for each in checks:
            each(report, value, pointer)

    return check


def has(tree: Any, name: str) -> bool:
    return isinstance(tree, dict) and tree.get(name) is not None


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def _camel_of(name: object) -> str:
    """The JSON name of a name in the proto; empty if it is no such name."""
    if not isinstance(name, str) or "_" not in name or len(name) > 64:
        return ""
    first, *rest = name.split("_")
    return first + "".join([each[:1].upper() + each[1:] for each in rest])
