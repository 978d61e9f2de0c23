"""Types of the keys: the values that a key allows, its default and its description."""

import types
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

from trunkline.config.secret import Secret


def bare_type(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def is_union(bare: Any) -> bool:
    return get_origin(bare) in (Union, types.UnionType)


def allows_none(kind: Any) -> bool:
    bare = bare_type(kind)
    return is_union(bare) and types.NoneType in get_args(bare)


def is_struct(kind: Any) -> bool:
    bare = bare_type(kind)
    return isinstance(bare, type) and issubclass(bare, Struct)


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
