"""The OpenAPI document: every route with its parameters, body, result, errors and credentials."""

from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from trunkline.api.api import Call, Route
from trunkline.api.errors import ERRORS
from trunkline.api.openapi import document, method_name, statuses_of
from trunkline.model.errors import InvalidParams, TrunklineError, Unauthenticated
from trunkline.protocol import errors, rest
from trunkline.protocol.versions import Version


class Query(Struct, frozen=True, kw_only=True, rename="camel"):
    page_size: Annotated[int, Meta(ge=1, le=100, description="Agents in a page.")] = 20
    owner: str | None = None
    day: str


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    day_limit: Annotated[int, Meta(ge=0)] = 0


class NewAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent to make."""

    name: str
    limits: Part = Part()


class Agent(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    status: Literal["draft", "published"]
    parts: tuple[Part, ...] = ()


async def never(_: Call) -> None:
    raise AssertionError("the document calls no handler")


def fault(request: Request, error: TrunklineError) -> Response:
    raise AssertionError("the document calls no handler")


def route(method: Any, path: str, name: str = "doIt", **more: Any) -> Route:
    return Route(method=method, path=path, name=name, summary="Does it", handle=never, **more)


def made(*routes: Route) -> Any:
    # The way over JSON shows that it can be encoded.
    found = document(routes, cookie="tl_session", bearer_format="tl_sess_<32hex>")
    return msgspec.json.decode(msgspec.json.encode(found))


def operation(one: Route) -> Any:
    return made(one)["paths"]["/api/v1" + one.path][one.method.lower()]


def test_parameters_have_their_place_type_and_need() -> None:
    found = operation(route("GET", "/agents/{id}", query=Query))["parameters"]
    by_name = {one["name"]: one for one in found}
    assert [*by_name] == ["id", "pageSize", "owner", "day"]
    assert by_name["id"]["in"] == "path"
    assert by_name["id"]["required"] is True
    assert by_name["pageSize"] == {
        "name": "pageSize",
        "in": "query",
        "description": "Agents in a page.",
        "schema": {
            "type": "integer",
            "format": "int64",
            "minimum": 1,
            "maximum": 100,
            "default": 20,
        },
    }
    # A query cannot say null.
    assert by_name["owner"]["schema"] == {"type": "string"}
    assert by_name["day"]["required"] is True


def test_types_are_components_and_those_of_queries_are_not() -> None:
    whole = made(
        route("POST", "/agents", body=NewAgent, result=Agent, status=201),
        route("GET", "/agents", query=Query, result=list[Agent]),
    )
    own = {name for name in whole["components"]["schemas"] if not name.startswith("Error")}
    assert own == {"NewAgent", "Agent", "Part"}
    create = whole["paths"]["/api/v1/agents"]["post"]
    body = create["requestBody"]
    assert body["required"] is True
    schema = {"$ref": "#/components/schemas/NewAgent"}
    assert body["content"]["application/json"]["schema"] == schema
    content = create["responses"]["201"]["content"]["application/json"]
    assert content == {"schema": {"$ref": "#/components/schemas/Agent"}}
    listed = whole["paths"]["/api/v1/agents"]["get"]["responses"]["200"]["content"]
    assert listed["application/json"]["schema"]["type"] == "array"


def test_integers_have_the_bounds_that_are_checked() -> None:
    schemas = made(route("POST", "/a", body=NewAgent))["components"]["schemas"]
    limit = schemas["Part"]["properties"]["dayLimit"]
    assert (limit["minimum"], limit["maximum"]) == (0, 2**63 - 1)


def test_a_struct_that_is_a_query_and_a_result_stays_a_component() -> None:
    whole = made(route("GET", "/a", query=Query, result=Query))
    assert "Query" in whole["components"]["schemas"]


def test_a_body_without_required_members_may_be_left_out() -> None:
    assert operation(route("POST", "/a", body=Part))["requestBody"]["required"] is False


@pytest.mark.parametrize(
    ("more", "status", "content"),
    [
        ({}, "204", None),
        ({"status": 303}, "303", None),
        ({"result": Agent}, "200", ["application/json"]),
        ({"result": Agent, "status": 202}, "202", ["application/json"]),
        ({"result_media_type": "text/html"}, "200", ["text/html"]),
    ],
)
def test_the_answer_has_the_status_and_the_media_type_of_the_route(
    more: dict[str, Any], status: str, content: list[str] | None
) -> None:
    responses = operation(route("POST", "/a", **more))["responses"]
    first = next(iter(responses))
    assert first == status
    assert ("content" in responses[first]) == (content is not None)
    assert [*responses[first].get("content", ())] == (content or [])


def test_every_route_names_the_errors_that_it_may_answer_with() -> None:
    read = statuses_of(route("GET", "/a"))
    assert read == (400, 401, 403, 404, 429, 503)
    write = statuses_of(route("POST", "/a", body=Part, errors=(412,)))
    assert write == (400, 401, 403, 404, 408, 409, 412, 413, 415, 429, 503)
    assert {*statuses_of(route("DELETE", "/a"))} == {*read, 409}


class OAuthRefusal(Struct, frozen=True, kw_only=True):
    error: str


def test_errors_of_a_standard_have_its_form_or_that_of_all() -> None:
    whole = made(route("POST", "/a", error=OAuthRefusal))
    refusal = whole["paths"]["/api/v1/a"]["post"]["responses"]["400"]
    assert refusal["content"]["application/json"]["schema"] == {
        "anyOf": [
            {"$ref": "#/components/schemas/Error"},
            {"$ref": "#/components/schemas/OAuthRefusal"},
        ]
    }
    assert "OAuthRefusal" in whole["components"]["schemas"]


def test_routes_for_browsers_answer_with_pages_and_redirects() -> None:
    one = route("GET", "/a", status=303, also=(200,), on_error=fault, takes_credential=False)
    found = operation(msgspec.structs.replace(one, is_public=True))
    responses = found["responses"]
    assert [*responses][:2] == ["303", "200"]
    assert "Location" in responses["303"]["headers"]
    assert [*responses["200"]["content"]] == ["text/html"]
    assert [*responses["400"]["content"]] == ["text/html", "application/json"]
    assert found["security"] == [{}]


def test_every_status_of_the_table_of_errors_has_its_text() -> None:
    assert {row.http for row in errors._TABLE.values()} <= {*ERRORS}


def test_a_public_route_may_be_called_with_and_without_a_credential() -> None:
    needed: list[Any] = [{"bearer": []}, {"cookie": []}]
    assert operation(route("GET", "/a"))["security"] == needed
    assert operation(route("GET", "/a", is_public=True))["security"] == [{}, *needed]
    schemes = made()["components"]["securitySchemes"]
    assert schemes["cookie"]["name"] == "tl_session"
    assert schemes["bearer"]["bearerFormat"] == "tl_sess_<32hex>"


def test_an_example_is_in_the_document() -> None:
    example = NewAgent(name="Rust expert", limits=Part(day_limit=5))
    body = operation(route("POST", "/a", body=NewAgent, example=example))["requestBody"]
    shown = body["content"]["application/json"]["example"]
    assert shown == {"name": "Rust expert", "limits": {"dayLimit": 5}}


@pytest.mark.parametrize("error", [Unauthenticated("No"), InvalidParams.at("name", "is wrong")])
def test_errors_have_the_form_that_the_document_says(error: Exception) -> None:
    status, body = rest.error(error, Version.V1_0)
    components = made(route("GET", "/a"))["components"]
    schema = {"$ref": "#/components/schemas/Error", "components": components}
    jsonschema_rs.validate(schema, msgspec.json.decode(body))
    assert status in statuses_of(route("GET", "/a"))
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"message": "No"})


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("createAgent", "create_agent"),
        ("list_agents", "list_agents"),
        ("getOpenapi", "get_openapi"),
        ("x", "x"),
    ],
)
def test_methods_of_the_client_have_the_names_of_the_routes(name: str, method: str) -> None:
    assert method_name(route("GET", "/a", name)) == method
