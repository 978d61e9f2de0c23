"""JSON Schema, as far as the tool uses it, with the errors that Ajv gives for it.

All errors are collected (`allErrors`) and nothing is coerced. Order and content follow
Ajv 8: what fits any type comes first, then what belongs to numbers, strings, arrays and
objects. A wrong type is reported in the place of the keywords that needed the right one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Error = dict[str, Any]
Schema = Mapping[str, Any]

# RFC 3986, absolute, as loose as the validators that agents' hosts use.
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+"
)
_BY_TYPE: Final = {
    "string": ("minLength", "pattern", "format"),
    "array": ("minItems", "items"),
    "object": ("required", "additionalProperties", "properties"),
}


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
    own_keywords = _BY_TYPE.get(wanted or "", ())
    # Ajv tells the type first, unless keywords of just this type stand in for the check.
    late = any(name in schema for name in own_keywords)
    if not fits and not late:
        yield _wrong_type(wanted, path, at)
    yield from _any_type(schema, value, path, at)
    if "minimum" in schema and _is("number", value):
        yield from _minimum(schema["minimum"], value, path, at)
    for kind, keywords in _BY_TYPE.items():
        if _is(kind, value):
            for name in keywords:
                if name in schema:
                    yield from _KEYWORDS[name](schema, value, path, at)
        elif kind == wanted and late:
            yield _wrong_type(wanted, path, at)


def _is(kind: str, value: object) -> bool:
    if kind == "object":
        return isinstance(value, Mapping)
    if kind == "array":
        return isinstance(value, list | tuple)
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return False
    return kind == "number" or value == int(value)


def _wrong_type(wanted: object, path: str, at: str) -> Error:
    return ajv_error("type", path, f"{at}/type", {"type": wanted}, f"must be {wanted}")


def _any_type(schema: Schema, value: object, path: str, at: str) -> Iterator[Error]:
    if "const" in schema and not _same(schema["const"], value):
        params = {"allowedValue": schema["const"]}
        yield ajv_error("const", path, f"{at}/const", params, "must be equal to constant")
    if "enum" in schema and not any(_same(item, value) for item in schema["enum"]):
        params = {"allowedValues": list(schema["enum"])}
        message = "must be equal to one of the allowed values"
        yield ajv_error("enum", path, f"{at}/enum", params, message)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            yield from _branches(keyword, schema[keyword], value, path, f"{at}/{keyword}")


def _branches(
    keyword: str, schemas: Sequence[Schema], value: object, path: str, at: str
) -> Iterator[Error]:
    found = [list(_check(each, value, path, f"{at}/{n}")) for n, each in enumerate(schemas)]
    passing = [index for index, errors in enumerate(found) if not errors]
    if passing and (keyword == "anyOf" or len(passing) == 1):
        return
    if not passing:
        for errors in found:
            yield from errors
    if keyword == "anyOf":
        yield ajv_error(keyword, path, at, {}, "must match a schema in anyOf")
    else:
        params = {"passingSchemas": passing[:2] or None}
        yield ajv_error(keyword, path, at, params, "must match exactly one schema in oneOf")


def _minimum(limit: int, value: Any, path: str, at: str) -> Iterator[Error]:
    if value < limit:
        params = {"comparison": ">=", "limit": limit}
        yield ajv_error("minimum", path, f"{at}/minimum", params, f"must be >= {limit}")


def _min_length(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    limit = schema["minLength"]
    if len(value) < limit:
        message = f"must NOT have fewer than {limit} characters"
        yield ajv_error("minLength", path, f"{at}/minLength", {"limit": limit}, message)


def _pattern(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    pattern = schema["pattern"]
    # `$` is the end of the text there, and may stand before a last newline here.
    if not re.search(pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else ""), value):
        message = f'must match pattern "{pattern}"'
        yield ajv_error("pattern", path, f"{at}/pattern", {"pattern": pattern}, message)


def _format(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    if not is_uri(value):
        params = {"format": schema["format"]}
        message = f'must match format "{schema["format"]}"'
        yield ajv_error("format", path, f"{at}/format", params, message)


def _min_items(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    limit = schema["minItems"]
    if len(value) < limit:
        message = f"must NOT have fewer than {limit} items"
        yield ajv_error("minItems", path, f"{at}/minItems", {"limit": limit}, message)


def _items(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    for index, item in enumerate(value):
        yield from _check(schema["items"], item, pointer(path, index), f"{at}/items")


def _required(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    for name in schema["required"]:
        if name not in value:
            message = f"must have required property '{name}'"
            params = {"missingProperty": name}
            yield ajv_error("required", path, f"{at}/required", params, message)


def _additional(schema: Schema, value: Any, path: str, at: str) -> Iterator[Error]:
    rule, known = schema["additionalProperties"], schema.get("properties", {})
    at = f"{at}/additionalProperties"
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
            yield from _check(each, value[name], pointer(path, name), f"{at}/properties/{name}")


def _same(wanted: object, value: object) -> bool:
    # To Python, True is 1.
    return wanted == value and isinstance(wanted, bool) == isinstance(value, bool)


_KEYWORDS: Final[Mapping[str, Callable[[Schema, Any, str, str], Iterator[Error]]]] = {
    "minLength": _min_length,
    "pattern": _pattern,
    "format": _format,
    "minItems": _min_items,
    "items": _items,
    "required": _required,
    "additionalProperties": _additional,
    "properties": _properties,
}
