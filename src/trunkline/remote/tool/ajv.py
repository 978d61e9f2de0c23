"""JSON Schema, as far as the tool uses it, with the errors of Ajv.

All errors are collected (`allErrors`) and nothing is coerced. Order and content follow
Ajv 8: keywords for any type come first, then those of numbers, strings, arrays and objects.
A wrong type is reported in the place of the keywords that needed the right one.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

Error = dict[str, Any]
Schema = Mapping[str, Any]

# RFC 3986, absolute, as loose as the validators that agents' hosts use.
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+"
)


def is_uri(text: str) -> bool:
    return _URI.fullmatch(text) is not None


def errors_of(schema: Schema, value: object) -> list[Error]:
    return list(_check(schema, value, "", "#"))


def ajv_error(
    keyword: str, path: str, schema_path: str, params: Mapping[str, Any], message: str
) -> Error:
    return {
        "instancePath": path,
        "schemaPath": schema_path,
        "keyword": keyword,
        "params": dict(params),
        "message": message,
    }


def pointer(path: str, name: str | int) -> str:
    """`path` and one step more, as a JSON pointer."""
    return f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"


def _check(schema: Schema, value: object, path: str, at: str) -> Iterator[Error]:
    wanted = schema.get("type")
    fits = wanted is None or _is(wanted, value)
    # Ajv reports a wrong type first, unless the schema has keywords of just this type.
    late = any(name in schema for name in _BY_TYPE.get(wanted or "", ()))
    if not fits and not late:
        yield _wrong_type(wanted, path, at)
    yield from _keywords(("const", "enum", "anyOf", "oneOf"), schema, value, path, at)
    for kind, names in _BY_TYPE.items():
        if _is(kind, value):
            yield from _keywords(names, schema, value, path, at)
        elif kind == wanted and late:
            yield _wrong_type(wanted, path, at)


def _is(kind: str, value: object) -> bool:
    if kind in _CLASSES:
        return isinstance(value, _CLASSES[kind])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return kind == "number" or value == int(value)


def _wrong_type(wanted: object, path: str, at: str) -> Error:
    return ajv_error("type", path, f"{at}/type", {"type": wanted}, f"must be {wanted}")


def _keywords(
    names: Sequence[str], schema: Schema, value: Any, path: str, at: str
) -> Iterator[Error]:
    for name in names:
        if name not in schema:
            continue
        if name in _NESTED:
            yield from _NESTED[name](schema, value, path, f"{at}/{name}")
            continue
        rule = schema[name]
        holds, param, message = _SIMPLE[name]
        if not holds(rule, value):
            params = {param: rule} if name != "minimum" else {"comparison": ">=", param: rule}
            yield ajv_error(name, path, f"{at}/{name}", params, message.format(rule))


def _any_of(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    found = [[*_check(each, value, path, f"{at}/{n}")] for n, each in enumerate(schema["anyOf"])]
    if all(found):
        yield from chain(*found)
        yield ajv_error("anyOf", path, at, {}, "must match a schema in anyOf")


def _one_of(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    found = [[*_check(each, value, path, f"{at}/{n}")] for n, each in enumerate(schema["oneOf"])]
    passing = [index for index, errors in enumerate(found) if not errors]
    if len(passing) != 1:
        if not passing:
            yield from chain(*found)
        params = {"passingSchemas": passing[:2] or None}
        yield ajv_error("oneOf", path, at, params, "must match exactly one schema in oneOf")


def _items(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    for index, item in enumerate(value):
        yield from _check(schema["items"], item, pointer(path, index), at)


def _required(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    for name in schema["required"]:
        if name not in value:
            message = f"must have required property '{name}'"
            yield ajv_error("required", path, at, {"missingProperty": name}, message)


def _additional(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    rule, known = schema["additionalProperties"], schema.get("properties", {})
    for name in value:
        if name in known:
            continue
        if rule is False:
            message = "must NOT have additional properties"
            params = {"additionalProperty": name}
            yield ajv_error("additionalProperties", path, at, params, message)
        else:
            yield from _check(rule, value[name], pointer(path, name), at)


def _properties(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    for name, each in schema["properties"].items():
        if name in value:
            yield from _check(each, value[name], pointer(path, name), f"{at}/{name}")


def _same(wanted: object, value: object) -> bool:
    # True equals 1 in Python, and not in JSON.
    return wanted == value and isinstance(wanted, bool) == isinstance(value, bool)


def _matches(pattern: str, value: str) -> bool:
    # In JavaScript `$` is the end of the text; in Python it may stand before a last newline.
    exact = pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else "")
    return re.search(exact, value) is not None


_CLASSES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": Mapping,
    "array": (list, tuple),
    "string": str,
    "boolean": bool,
}
# The keywords of each type, in the order in which Ajv checks them.
_BY_TYPE: Final = {
    "number": ("minimum",),
    "string": ("minLength", "pattern", "format"),
    "array": ("minItems", "items"),
    "object": ("required", "additionalProperties", "properties"),
}
# Keyword → whether a value obeys its rule, the parameter that holds the rule, the message.
_SIMPLE: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str, str]]] = {
    "const": (_same, "allowedValue", "must be equal to constant"),
    "enum": (
        lambda items, value: any(_same(item, value) for item in items),
        "allowedValues",
        "must be equal to one of the allowed values",
    ),
    "minimum": (lambda least, value: value >= least, "limit", "must be >= {}"),
    "minLength": (
        lambda least, value: len(value) >= least,
        "limit",
        "must NOT have fewer than {} characters",
    ),
    "pattern": (_matches, "pattern", 'must match pattern "{}"'),
    "format": (lambda _, value: is_uri(value), "format", 'must match format "{}"'),
    "minItems": (
        lambda least, value: len(value) >= least,
        "limit",
        "must NOT have fewer than {} items",
    ),
}
_NESTED: Final[Mapping[str, Callable[[Schema, Any, str, str], Iterator[Error]]]] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "items": _items,
    "required": _required,
    "additionalProperties": _additional,
    "properties": _properties,
}
