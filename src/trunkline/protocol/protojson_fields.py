"""`read`: an untyped JSON value as a struct. It accepts all of ProtoJSON and names a bad field.

A reader turns an untyped JSON value into one field of a struct. They are built once
per struct from its annotations, so the schema is written in one place, `model`.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias, TypeVar, cast

import msgspec.inspect as mi
from msgspec import Struct

from trunkline.model.errors import InvalidParams
from trunkline.model.values import Role, TaskState

T = TypeVar("T")
# The value, and the path of the field for the message.
Reader: TypeAlias = Callable[[object, str], object]

INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)
_SHOWN = 64

_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
# Enums by number, as ProtoJSON allows. TaskState lists its values in the order of the proto; Role
# has no member for 0, which means that no role is set.
_NUMBERED: dict[type, Mapping[int, Enum]] = {
    TaskState: dict(enumerate(TaskState)),
    Role: dict(enumerate(Role, start=1)),
}


def read(tree: object, into: type[T], path: str = "") -> T:
    """`tree` as a value of the struct `into`; InvalidParams names the first field at fault."""
    return cast(T, _struct_reader(into)(tree, path))


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def snake(name: str) -> str:
    """The name in the .proto, which is the snake_case form of the JSON name."""
    return _HUMP.sub(r"_\1", name).lower()


def quote(text: str) -> str:
    """A text of the client in quotes, cut so that the client cannot make the answer grow."""
    return f'"{text}"' if len(text) <= _SHOWN else f'"{text[:_SHOWN]}…"'


def kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "an array"
    return "null" if value is None else "an object"


def _wrong(path: str, wanted: str, value: object) -> InvalidParams:
    return InvalidParams.at(path or "request", f"must be {wanted}, got {kind_of(value)}")


def _read_string(value: object, path: str) -> object:
    if not isinstance(value, str):
        raise _wrong(path, "a string", value)
    return value


def _read_bool(value: object, path: str) -> object:
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def _read_int(value: object, path: str) -> object:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise InvalidParams.at(path, "must be an integer")
        number = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float):
        if not value.is_integer():
            raise InvalidParams.at(path, "must be an integer, got a fraction")
        number = int(value)
    else:
        raise _wrong(path, "an integer", value)
    if not _INT32_MIN <= number <= INT32_MAX:
        raise InvalidParams.at(path, f"must be between {_INT32_MIN} and {INT32_MAX}")
    return number


def _read_bytes(value: object, path: str) -> object:
    if not isinstance(value, str):
        raise _wrong(path, "a base64 string", value)
    # ProtoJSON: standard and URL-safe alphabet, with or without padding.
    text = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidParams.at(path, "must be base64") from None


def _read_anything(value: object, path: str) -> object:
    return value


def _read_object(value: object, path: str) -> object:
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    return value


def _enum_reader(cls: type[Enum]) -> Reader:
    names = {str(member.value): member for member in cls}
    numbers = _NUMBERED.get(cls, {})
    known = ", ".join(names)

    def read_enum(value: object, path: str) -> object:
        if isinstance(value, str):
            member = names.get(value)
            shown = quote(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            member = numbers.get(value)
            shown = str(value) if abs(value) <= INT32_MAX else "beyond all enums"
        else:
            raise _wrong(path, "a string", value)
        if member is None:
            raise InvalidParams.at(path, f"unknown value {shown}; one of {known}")
        return member

    return read_enum


def _array_reader(item: Reader) -> Reader:
    def read_array(value: object, path: str) -> object:
        if not isinstance(value, list):
            raise _wrong(path, "an array", value)
        return tuple([item(element, f"{path}[{index}]") for index, element in enumerate(value)])

    return read_array


def _map_reader(item: Reader) -> Reader:
    def read_map(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        return {key: item(element, join(path, key)) for key, element in value.items()}

    return read_map


class _Field(Struct, frozen=True):
    name: str
    json_name: str
    read: Reader
    required: bool
    # Only a field that holds any JSON tells null and absence apart.
    keeps_null: bool


def _struct_reader(cls: type) -> Reader:
    reader = _STRUCTS.get(cls)
    if reader is None:
        reader = _STRUCTS[cls] = _build_struct_reader(cls)
    return reader


_STRUCTS: dict[type, Reader] = {}


def _build_struct_reader(cls: type) -> Reader:
    info = mi.type_info(cls)
    if not isinstance(info, mi.StructType):
        raise TypeError(f"{cls!r} is not a struct")
    fields = [
        _Field(f.name, f.encode_name, _reader(f.type), f.required, isinstance(f.type, mi.AnyType))
        for f in info.fields
    ]
    by_name = {field.json_name: field for field in fields}
    by_name |= {snake(field.json_name): field for field in fields}
    required = [field for field in fields if field.required]
    build = cast(Callable[..., object], cls)

    def read_struct(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        given: dict[str, object] = {}
        for key, item in value.items():
            field = by_name.get(key)
            if field is None or (item is None and not field.keeps_null):
                continue
            where = join(path, field.json_name)
            if field.name in given:
                raise InvalidParams.at(where, "is given twice, in camelCase and in snake_case")
            given[field.name] = field.read(item, where)
        for field in required:
            if field.name not in given:
                raise InvalidParams.at(join(path, field.json_name), "is required")
        try:
            return build(**given)
        except ValueError as violation:
            raise blame(violation, path, by_name) from None

    return read_struct


def blame(violation: ValueError, path: str, fields: Mapping[str, object]) -> InvalidParams:
    """The error for a violated rule of the model, whose text begins with the field name or is about
    the whole value."""
    first, _, rest = str(violation).partition(" ")
    if first in fields:
        return InvalidParams.at(join(path, first), rest)
    return InvalidParams.at(path or "request", str(violation))


def _reader(of: mi.Type) -> Reader:
    match of:
        case mi.StrType():
            return _read_string
        case mi.BoolType():
            return _read_bool
        case mi.IntType():
            return _read_int
        case mi.BytesType():
            return _read_bytes
        case mi.AnyType():
            return _read_anything
        case mi.EnumType(cls=cls):
            return _enum_reader(cls)
        case mi.StructType(cls=cls):
            return _struct_reader(cls)
        case mi.VarTupleType(item_type=item) | mi.ListType(item_type=item):
            return _array_reader(_reader(item))
        case mi.DictType(value_type=mi.AnyType()):
            return _read_object
        case mi.DictType(value_type=item):
            return _map_reader(_reader(item))
        case mi.UnionType(types=types):
            # The reader of the struct handles null, so one type is left.
            (kept,) = (t for t in types if not isinstance(t, mi.NoneType))
            return _reader(kept)
        case _:
            raise TypeError(f"no reader for {of!r}")
