"""`Reference`: the OpenAPI document as rows of text, for the page of the gateway and the docs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from trunkline.api.input import INTEGERS
from trunkline.api.openapi import Json

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_JSON: Final = "application/json"
# Types may hold themselves.
_DEEPEST: Final = 4


class Field(Struct, frozen=True, kw_only=True):
    """A parameter, or a member of a type."""

    name: str
    # `path` or `query` for a parameter.
    place: str = ""
    kind: str
    is_required: bool
    text: str = ""


class Type(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    fields: tuple[Field, ...]


class Operation(Struct, frozen=True, kw_only=True):
    name: str
    method: str
    path: str
    summary: str
    text: str
    is_public: bool
    parameters: tuple[Field, ...]
    # The types of the body and the result, as `Field.kind` has them; empty for none.
    body: str
    body_media_type: str
    # A body in JSON; empty where no member is required.
    example: str
    status: str
    result: str
    result_media_type: str
    errors: tuple[str, ...]


class Reference(Struct, frozen=True, kw_only=True):
    title: str
    text: str
    # By the first segment of their paths.
    groups: Mapping[str, tuple[Operation, ...]]
    types: tuple[Type, ...]
    # The text of each status of an error.
    errors: Mapping[str, str]


def reference(document: Json) -> Reference:
    groups: dict[str, tuple[Operation, ...]] = {}
    for path, place in document["paths"].items():
        for method in _METHODS:
            if method in place:
                made = _operation(method, path, place[method], document)
                (tag,) = place[method]["tags"]
                groups[tag] = (*groups.get(tag, ()), made)
    components = document["components"]
    return Reference(
        title=document["info"]["title"],
        text=document["info"]["description"],
        groups=groups,
        types=tuple(_type(name, schema) for name, schema in components["schemas"].items()),
        errors={
            name.removeprefix("Error"): response["description"]
            for name, response in components["responses"].items()
        },
    )


def _operation(method: str, path: str, given: Json, document: Json) -> Operation:
    body: Json = given.get("requestBody", {}).get("content", {})
    (status, success), *errors = given["responses"].items()
    result: Json = success.get("content", {})
    body_media_type = next(iter(body), "")
    content: Json = body.get(body_media_type, {})
    return Operation(
        name=given["operationId"],
        method=method.upper(),
        path=path,
        summary=given["summary"],
        text=given.get("description", ""),
        is_public={} in given["security"],
        parameters=tuple(map(_parameter, given.get("parameters", ()))),
        body=kind_of(content["schema"]) if content else "",
        body_media_type=body_media_type,
        example=_example(content, document) if body_media_type == _JSON else "",
        status=status,
        result=next((kind_of(one["schema"]) for one in result.values()), ""),
        result_media_type=next(iter(result), ""),
        errors=tuple(status for status, _ in errors if int(status) >= 400),
    )


def _parameter(given: Json) -> Field:
    return Field(
        name=given["name"],
        place=given["in"],
        kind=kind_of(given["schema"]),
        is_required=given.get("required", False),
        text=given.get("description", ""),
    )


def _type(name: str, schema: Json) -> Type:
    required = schema.get("required", ())
    fields = tuple(
        Field(
            name=field,
            kind=kind_of(inner),
            is_required=field in required,
            text=inner.get("description", ""),
        )
        for field, inner in schema.get("properties", {}).items()
    )
    return Type(name=name, text=schema.get("description", ""), fields=fields)


def kind_of(schema: Json) -> str:
    """A type in a few words. The name of another type is in brackets: `list of [Agent]`."""
    if "$ref" in schema:
        return f"[{schema['$ref'].rpartition('/')[2]}]"
    if "enum" in schema:
        return " or ".join(json.dumps(each) for each in schema["enum"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(kind_of(option) for option in options))
    match schema.get("type"):
        case "array":
            return f"list of {kind_of(schema.get('items', {}))}"
        case "object" if "additionalProperties" in schema:
            values = schema["additionalProperties"]
            return f"object of {kind_of(values)}" if isinstance(values, dict) else "object"
        case str(kind):
            return ", ".join((kind, *_bounds(schema)))
        case list(kinds):
            return " or ".join(kinds)
        case _:
            return "any JSON"


_BOUNDS: Final[Mapping[str, str]] = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} items",
}


def _bounds(schema: Json) -> Iterator[str]:
    for name, text in _BOUNDS.items():
        # Every integer has the bounds of 64 bits.
        if name in schema and schema[name] not in (INTEGERS.start, INTEGERS.stop - 1):
            yield text.format(schema[name])


def _example(content: Json, document: Json) -> str:
    """The example of a body, or one that is made of its type."""
    if "example" in content:
        return json.dumps(content["example"], ensure_ascii=False)
    made = example_of(content["schema"], document["components"]["schemas"])
    return json.dumps(made, ensure_ascii=False) if made else ""


def example_of(schema: Json, components: Mapping[str, Json], depth: int = 0) -> Any:
    """A value of the type, with those members that are required or have examples."""
    if "$ref" in schema:
        return example_of(components[schema["$ref"].rpartition("/")[2]], components, depth + 1)
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "default" in schema:
        return schema["default"]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return example_of(options[0], components, depth + 1)
    match schema.get("type"):
        case "object":
            return dict(_members(schema, components, depth))
        case "array":
            item = schema.get("items", {})
            least = schema.get("minItems", 0)
            return [example_of(item, components, depth + 1) for _ in range(least)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
        case _:
            return "…".ljust(schema.get("minLength", 0), "…")


def _members(schema: Json, components: Mapping[str, Json], depth: int) -> Iterable[tuple[str, Any]]:
    if depth > _DEEPEST:
        return
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or "examples" in inner:
            yield name, example_of(inner, components, depth + 1)
