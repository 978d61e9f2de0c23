"""`document`: the OpenAPI 3.1 document of the hub, made of its table of routes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from trunkline.api.api import PREFIX, Route
from trunkline.api.errors import SCHEMAS, TYPES, refusal
from trunkline.api.input import INTEGERS, JSON
from trunkline.api.paths import parameter, parameters_of
from trunkline.api.texts import text_of

Json: TypeAlias = dict[str, Any]

# Every route may answer with these: the credential and the store are behind all of them.
_ALWAYS: Final = (400, 401, 403, 404, 429, 503)
_WITH_BODY: Final = (408, 413, 415)
_CHANGES: Final = (409,)

_INTRODUCTION: Final = (
    "Manages the agents, credentials and limits of a Trunkline gateway. Names are in camelCase, "
    "times are RFC 3339 texts. A list comes in pages: `nextPageToken` of one answer is `pageToken` "
    "of the next request, and is empty at the end. Errors have one form everywhere: `message` is "
    "for people, `reason` in `details` is for programs. Unless a type says otherwise, unknown "
    "members are ignored; a member that is given twice is refused."
)


def document(routes: Iterable[Route], *, cookie: str, bearer_format: str) -> Json:
    """`cookie` is the name of the session cookie."""
    table = sorted(routes, key=lambda route: (route.path, _METHODS.index(route.method)))
    types = [kind for route in table for kind in _types(route)]
    schemas, components = msgspec.json.schema_components(
        types, ref_template=f"{TYPES}{{name}}", schema_hook=_unknown
    )
    for schema in (*schemas, *components.values()):
        _bound_integers(schema)
    components |= dict(route.body_schema for route in table if route.body_schema is not None)
    texts = {name: text for route in table for name, text in route.texts.items()}
    for name, schema in components.items():
        _describe(name, schema, texts)
    by_type = list(zip(types, schemas, strict=True))
    paths: dict[str, Json] = {}
    for route in table:
        place = paths.setdefault(PREFIX + route.path, {})
        place[route.method.lower()] = _operation(route, by_type, components)
    queries = {_name_of(_schema(route.query, by_type)) for route in table if route.query}
    bodies = {_name_of(_schema(kind, by_type)) for route in table for kind in _contents(route)}
    for unused in queries - bodies:
        # The fields of a query are its parameters.
        del components[unused]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trunkline hub", "version": "1", "description": _INTRODUCTION},
        "servers": [{"url": "/", "description": "This gateway"}],
        "tags": [{"name": name} for name in dict.fromkeys(map(tag_of, table))],
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, **dict(sorted(components.items()))},
            "responses": {name_of(status): refusal(status) for status in _statuses(table)},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": bearer_format,
                    "description": "A session token, a token of a service or an API key.",
                },
                "turn": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "tl_tool_<40hex>",
                    "description": "The token that the program of an agent has during a turn.",
                },
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": cookie,
                    "description": "A session of a browser, for pages of this gateway.",
                },
            },
        },
    }


_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


def tag_of(route: Route) -> str:
    """The group of a route."""
    return route.tag or route.path.split("/")[1]


def name_of(status: int) -> str:
    return f"Error{status}"


def statuses_of(route: Route) -> tuple[int, ...]:
    """Those of all errors that the route can answer with."""
    with_body = () if route.body is None else _WITH_BODY
    changes = () if route.method == "GET" else _CHANGES
    return tuple(sorted({*_ALWAYS, *with_body, *changes, *route.errors}))


def _types(route: Route) -> Iterable[Any]:
    yield from _contents(route)
    if route.query is not None:
        yield route.query


def _contents(route: Route) -> Iterable[Any]:
    if route.body is not None:
        yield route.body
    if route.result is not None:
        yield route.result
    if route.error is not None:
        yield route.error


def _unknown(kind: type) -> Json:
    """For a type that only its own encoder knows, such as a secret: a text."""
    return {"type": "string", "title": kind.__name__}


def _bound_integers(schema: Any) -> None:
    """What `api_input` refuses for every type."""
    if isinstance(schema, list):
        for each in schema:
            _bound_integers(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "integer":
            schema.setdefault("format", "int64")
            if "exclusiveMinimum" not in schema:
                schema.setdefault("minimum", INTEGERS.start)
            if "exclusiveMaximum" not in schema:
                schema.setdefault("maximum", INTEGERS.stop - 1)
        for name, inner in schema.items():
            # The values of these are JSON of the client, and no schemas.
            if name not in ("default", "examples", "enum", "const"):
                _bound_integers(inner)


def _describe(name: str, schema: Json, more: Mapping[str, str]) -> None:
    for member, inner in schema.get("properties", {}).items():
        if "description" not in inner and (text := text_of(name, member, more)):
            inner["description"] = text


def _schema(kind: Any, by_type: Sequence[tuple[Any, Json]]) -> Json:
    return next(schema for each, schema in by_type if each == kind)


def _body_schema(route: Route, by_type: Sequence[tuple[Any, Json]]) -> Json:
    if route.body_schema is None:
        return _schema(route.body, by_type)
    name, _ = route.body_schema
    return {"$ref": f"{TYPES}{name}"}


def _name_of(schema: Json) -> str:
    """The name of a component; "" for a schema that is none."""
    return str(schema.get("$ref", "")).removeprefix(TYPES)


def _operation(route: Route, by_type: Sequence[tuple[Any, Json]], components: Json) -> Json:
    parameters = [_path_parameter(name) for name in parameters_of(route.path)]
    if route.query is not None:
        parameters += _query_parameters(components[_name_of(_schema(route.query, by_type))])
    operation: Json = {
        "operationId": method_name(route),
        "tags": [tag_of(route)],
        "summary": route.summary,
    }
    if route.description:
        operation["description"] = route.description
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _body(route, _body_schema(route, by_type), components)
    operation["responses"] = _responses(route, by_type)
    # One of them is enough; an empty one stands for no credential.
    needed: list[Json] = []
    if route.authorize is not None:
        needed = [{"turn": []}]
    elif route.takes_credential:
        needed = [{"bearer": []}, {"cookie": []}]
    operation["security"] = [{}, *needed] if route.is_public else needed
    return operation


def _path_parameter(name: str) -> Json:
    about = parameter(name)
    schema = {"type": "string", "pattern": about.pattern}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": about.description,
        "schema": schema,
    }


def _query_parameters(query: Json) -> Iterable[Json]:
    required = query.get("required", ())
    for name, schema in query["properties"].items():
        found: Json = {"name": name, "in": "query"}
        if name in required:
            found["required"] = True
        inner = _without_null(schema)
        if text := inner.pop("description", ""):
            found["description"] = text
        yield {**found, "schema": inner}


def _without_null(schema: Json) -> Json:
    """A query cannot say null: the field is left out."""
    inner = {
        name: value for name, value in schema.items() if name != "default" or value is not None
    }
    options = inner.get("anyOf")
    if options is None:
        return inner
    given = [option for option in options if option != {"type": "null"}]
    rest = {name: value for name, value in inner.items() if name != "anyOf"}
    return {**given[0], **rest} if len(given) == 1 else {**rest, "anyOf": given}


def _body(route: Route, schema: Json, components: Json) -> Json:
    content: Json = {"schema": schema}
    if route.example is not None:
        content["example"] = msgspec.to_builtins(route.example)
    required = components.get(_name_of(schema), {}).get("required", ())
    return {"required": bool(required), "content": {route.body_media_type: content}}


def _responses(route: Route, by_type: Sequence[tuple[Any, Json]]) -> Json:
    found: Json = {str(route.success): _success(route, by_type)}
    for status in route.also:
        found[str(status)] = _REDIRECT if status >= 300 else _PAGE
    for status in statuses_of(route):
        found[str(status)] = {"$ref": f"#/components/responses/{name_of(status)}"}
        if route.on_error is not None or route.error is not None:
            found[str(status)] = _own_refusal(route, status, by_type)
    return found


def _own_refusal(route: Route, status: int, by_type: Sequence[tuple[Any, Json]]) -> Json:
    """The refusal of a route for browsers, or of a standard with a form of its own."""
    whole = refusal(status)
    content: Json = dict(whole["content"])
    if route.on_error is not None:
        content = {**_PAGE["content"], **content}
    if route.error is not None:
        forms = [content[JSON]["schema"], _schema(route.error, by_type)]
        content[JSON] = {"schema": {"anyOf": forms}}
    return {**whole, "content": content}


_REDIRECT: Final[Json] = {
    "description": "A redirect.",
    "headers": {"Location": {"description": "Where to go.", "schema": {"type": "string"}}},
}
_PAGE: Final[Json] = {
    "description": "A page for people.",
    "content": {"text/html": {"schema": {"type": "string"}}},
}


def _success(route: Route, by_type: Sequence[tuple[Any, Json]]) -> Json:
    if route.result is not None:
        content = {route.result_media_type: {"schema": _schema(route.result, by_type)}}
        return {"description": "The result.", "content": content}
    if route.result_media_type != JSON:
        content = {route.result_media_type: {"schema": {"type": "string"}}}
        return {"description": "The result.", "content": content}
    if 300 <= route.success < 400:
        return _REDIRECT
    return {"description": "Done; the answer is empty."}


def _statuses(routes: Iterable[Route]) -> list[int]:
    return sorted({status for route in routes for status in statuses_of(route)})


_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def method_name(route: Route) -> str:
    """The name of the method of the Python client: `createAgent` is `create_agent`."""
    return _CAPITAL.sub(lambda found: "_" + found[1].lower(), route.name).replace("-", "_")
