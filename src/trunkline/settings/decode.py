"""`decode`: a document as settings, with a problem for every key that does not fit.

`msgspec.convert` stops at the first misfit, so the decoder walks each table by its struct and has
msgspec judge one value at a time. It puts a stand-in for a value that does not fit, so that the
rules can look at the rest.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

from trunkline.config.problems import (
    Path,
    Problem,
    Referenced,
    did_you_mean,
    one_of,
    shown,
)
from trunkline.config.secret import MASK, Secret
from trunkline.settings.agents import AgentSettings
from trunkline.settings.environment import secret_of
from trunkline.settings.profiles import NOT_AVAILABLE, PRESETS
from trunkline.settings.root import Settings

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def decode(document: object, *, problems: list[Problem]) -> Settings:
    """Settings from a document, or from settings made in Python, to have them checked."""
    return cast(Settings, _Decoder(problems).struct(Settings, document, ()))


class _Decoder(Struct):
    problems: list[Problem]

    def struct(self, cls: type[Struct], value: object, path: Path, hint: str = "") -> Struct | None:
        table = self.table(cls, value, path, hint or (cls.__doc__ or "").strip())
        if table is None:
            return None
        known = _fields_by_name(cls)
        config = cls.__struct_config__
        for name in table:
            if name not in known and name != config.tag_field:
                self.unknown(cls, name, known, path)
        if cls is AgentSettings and not isinstance(value, Struct):
            table = _with_preset(table)
        return cls(**{f.name: self.member(cls, f, table, path) for f in known.values()})

    def unknown(self, cls: type[Struct], name: str, known: Iterable[str], path: Path) -> None:
        if cls is AgentSettings and name in NOT_AVAILABLE:
            what = f"not available: this release has no {NOT_AVAILABLE[name]} yet"
            self.report((*path, name), what, "Remove the key.")
            return
        # The list of all keys helps only where no key has a similar name.
        meant = did_you_mean(name, known).strip()
        remedy = meant or f"Known here: {', '.join(known) or 'nothing'}."
        self.report((*path, name), "unknown key", remedy)

    def table(
        self, kind: object, value: object, path: Path, hint: str
    ) -> Mapping[str, object] | None:
        if isinstance(value, Struct):
            return {field.encode_name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Mapping):
            return value
        self.misfit(kind, value, path, "expected a table", hint)
        return None

    def member(
        self, cls: type[Struct], field: FieldInfo, table: Mapping[str, object], path: Path
    ) -> object:
        here = (*path, field.encode_name)
        if field.encode_name in table:
            hint = _hint(field, default=True)
            made = self.value(field.type, table[field.encode_name], here, hint)
            if made is not None or allows_none(field.type):
                return made
        elif default_of(field) is NODEFAULT:
            self.report(here, "missing", f"Add it. {_hint(field)}".rstrip())
        default = default_of(field)
        return stand_in(field.type) if default is NODEFAULT else default

    def value(self, kind: Any, value: object, path: Path, hint: str) -> object:
        """The value as `kind`. The decoder reports a value that does not fit, and returns None."""
        bare, args = bare_type(kind), get_args(bare_type(kind))
        if value is None and allows_none(kind):
            return None
        if allows_none(kind) and len(args) == 2:
            return self.value(args[0], value, path, hint)
        if bare is Secret:
            return self.secret(value, path, hint)
        if isinstance(bare, type) and issubclass(bare, Struct):
            return self.struct(bare, value, path, hint)
        if is_union(bare):
            kinds = tuple(arg for arg in args if arg is not NoneType)
            return self.tagged(kinds, value, path, hint)
        if get_origin(bare) is dict and (args[1] is Secret or _is_table(args[1])):
            return self.entries(bare, value, path, hint)
        if get_origin(bare) is tuple and (is_struct(args[0]) or args[0] is Secret):
            return self.items(bare, value, path, hint)
        return self.leaf(kind, value, path, hint)

    def secret(self, value: object, path: Path, hint: str) -> Secret | None:
        if isinstance(value, Secret):
            return value
        if isinstance(value, str):
            return secret_of(value)
        self.misfit(Secret, value, path, "expected a text", hint)
        return None

    def tagged(self, kinds: tuple[Any, ...], value: object, path: Path, hint: str) -> Struct | None:
        tags = {str(kind.__struct_config__.tag): kind for kind in kinds}
        if isinstance(value, kinds):
            return self.struct(type(value), value, path, hint)
        table = self.table(
            kinds[0], value, path, f'{hint} Example: {{ kind = "{next(iter(tags))}", … }}'
        )
        if table is None:
            return None
        tag = table.get("kind")
        if isinstance(tag, str) and tag in tags:
            return self.struct(tags[tag], table, path, hint)
        what = f"expected one of {one_of(tags)}"
        remedy = did_you_mean(tag, tags).rstrip() if isinstance(tag, str) else 'Add kind = "…".'
        self.report((*path, "kind"), what, remedy, value="" if tag is None else shown(tag))
        return None

    def entries(self, kind: Any, value: object, path: Path, hint: str) -> object:
        if not isinstance(value, Mapping):
            what = "a table of texts" if get_args(kind)[1] is Secret else "a table of tables"
            self.misfit(kind, value, path, f"expected {what}", hint)
            return None
        inner = get_args(kind)[1]
        made = {str(k): self.value(inner, v, (*path, str(k)), "") for k, v in value.items()}
        return {k: v for k, v in made.items() if v is not None}

    def items(self, kind: Any, value: object, path: Path, hint: str) -> object:
        inner = get_args(kind)[0]
        if not isinstance(value, list | tuple):
            of = "texts" if inner is Secret else "tables"
            self.misfit(kind, value, path, f"expected a list of {of}", hint)
            return None
        made = (self.value(inner, item, (*path, i), "") for i, item in enumerate(value))
        return tuple(item for item in made if item is not None)

    def leaf(self, kind: Any, value: object, path: Path, hint: str) -> object:
        # TOML has no way to write a number with a reference, so `port = "${PORT}"` is read.
        strict = not isinstance(value, Referenced)
        if isinstance(value, float) and not math.isfinite(value):
            self.report(path, "expected a number", hint, value=str(value))
            return None
        try:
            return msgspec.convert(_plain(value), kind, strict=strict)
        except msgspec.ValidationError as error:
            choices = get_args(bare_type(kind)) if get_origin(bare_type(kind)) is Literal else ()
            what = f"expected one of {one_of(choices)}" if choices else _reworded(str(error))
            guess = did_you_mean(value, choices) if choices and isinstance(value, str) else ""
            self.misfit(kind, value, path, what, f"{guess}{hint}")
            return None

    def misfit(self, kind: object, value: object, path: Path, what: str, hint: str) -> None:
        text = MASK if holds_secret(kind) else shown(value)
        self.report(path, what, hint, value=text)

    def report(self, path: Path, what: str, remedy: str, *, value: str = "") -> None:
        self.problems.append(Problem(path, what, remedy, value))


# msgspec evaluates the annotations of a struct at each call, and there may be thousands of agents.
@cache
def _fields_by_name(cls: type[Struct]) -> Mapping[str, FieldInfo]:
    return {field.encode_name: field for field in fields(cls)}


def _hint(field: FieldInfo, *, default: bool = False) -> str:
    text = description(field.type)
    kinds = [arg for arg in get_args(bare_type(field.type)) if is_struct(arg)]
    if kinds and is_union(bare_type(field.type)):
        # An error message names the kinds, because it cannot link to the page that lists them.
        names = one_of(str(kind.__struct_config__.tag) for kind in kinds)
        text = text.replace("see its kinds", f"kinds are {names}")
    value = default_of(field)
    if default and isinstance(value, str | int | float | tuple) and value not in ("", ()):
        return f"{text} Default: {shown(value)}.".lstrip()
    return text


def _reworded(text: str) -> str:
    """The error of msgspec in the words of TOML, without the path that msgspec adds."""
    text = text.split(" - at ")[0]
    for name, words in WORDS.items():
        text = text.replace(f"`{name}`", words)
    return text[:1].lower() + text[1:]


def _plain(value: object) -> object:
    if isinstance(value, Referenced):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _with_preset(table: Mapping[str, object]) -> Mapping[str, object]:
    """The keys of the preset, overridden by those of the table. The type of `profile` refuses an
    unknown preset."""
    name = table.get("profile")
    return {**PRESETS.get(name, {}), **table} if isinstance(name, str) else table


def bare_type(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_union(bare: Any) -> bool:
    return get_origin(bare) in (Union, UnionType)


def allows_none(kind: Any) -> bool:
    bare = bare_type(kind)
    return is_union(bare) and NoneType in get_args(bare)


def is_struct(kind: Any) -> bool:
    bare = bare_type(kind)
    return isinstance(bare, type) and issubclass(bare, Struct)


def _is_table(kind: Any) -> bool:
    """Whether it is a struct, or one of several kinds of them."""
    return is_struct(kind) or (is_union(kind) and all(map(is_struct, get_args(kind))))


def default_of(field: FieldInfo) -> Any:
    if field.default is not NODEFAULT:
        return field.default
    return field.default_factory() if field.default_factory is not NODEFAULT else NODEFAULT


def stand_in(kind: Any) -> object:
    bare = bare_type(kind)
    if is_union(bare):
        return get_args(bare)[0]()
    if get_origin(bare) is tuple:
        return ()
    if get_origin(bare) is dict:
        return {}
    return "" if bare is str else None


def description(kind: Any) -> str:
    """The description that is written beside the key."""
    for meta in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return ""


def holds_secret(kind: Any) -> bool:
    bare = bare_type(kind)
    if bare is Secret:
        return True
    if is_struct(bare):
        return any(holds_secret(field.type) for field in fields(bare))
    return any(holds_secret(arg) for arg in get_args(bare))
