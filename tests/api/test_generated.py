"""What is written from the table of routes is up to date: the client, the page and the document."""

import inspect
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tools.gen_api_docs import DOCS, DOCUMENT, PAGE, encoded, rendered
from tools.gen_hub_client import FOLDER, modules
from tools.hub_routes import openapi, routes

from trunkline.api.openapi import method_name
from trunkline.api.reference import example_of
from trunkline.hub.client import HubClient, SyncHub

STALE = "is stale: run tools/gen_hub_client.py and tools/gen_api_docs.py"
ROUTES = routes()
OPENAPI = openapi()


# A redirect is for browsers, and a stream without an end is no result.
CALLED = [route for route in ROUTES if route.success < 300 and not route.is_endless]


@pytest.mark.parametrize("route", CALLED, ids=lambda route: route.name)
def test_every_route_has_a_method_in_both_clients(route: Any) -> None:
    for client in (HubClient, SyncHub):
        method = getattr(client, method_name(route))
        given = inspect.signature(method).parameters
        assert ("body" in given) == (route.body is not None)


@pytest.mark.parametrize(("name", "source"), modules(ROUTES).items())
def test_the_client_is_up_to_date(name: str, source: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == source, f"{name} {STALE}"


@pytest.mark.parametrize(
    ("name", "text"), [(PAGE, rendered(OPENAPI)), (DOCUMENT, encoded(OPENAPI))]
)
def test_the_reference_is_up_to_date(name: str, text: str) -> None:
    assert (DOCS / name).read_text("utf-8") == text, f"{name} {STALE}"


def test_the_document_is_one_of_openapi() -> None:
    # The form of an OpenAPI document is checked by schemathesis as it is loaded.
    from schemathesis import openapi as loader

    schema = loader.from_dict(OPENAPI)
    found = [*schema.get_all_operations()]
    assert {type(each).__name__ for each in found} == {"Ok"}
    assert len(found) == len(ROUTES)


@pytest.mark.parametrize("name", OPENAPI["components"]["schemas"])
def test_every_schema_is_one_of_json_schema_and_takes_its_example(name: str) -> None:
    schemas = OPENAPI["components"]["schemas"]
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    validator = jsonschema_rs.Draft202012Validator(schema)
    if not name.startswith("Error"):
        validator.validate(example_of(schemas[name], schemas))


@pytest.mark.parametrize("name", OPENAPI["components"]["schemas"])
def test_every_member_has_a_text(name: str) -> None:
    members = OPENAPI["components"]["schemas"][name].get("properties", {})
    bare = [member for member, schema in members.items() if "description" not in schema]
    assert bare == [], "write a text in src/trunkline/api/texts.py"


def test_every_parameter_has_a_text() -> None:
    bare = [
        (path, parameter["name"])
        for path, place in OPENAPI["paths"].items()
        for operation in place.values()
        for parameter in operation.get("parameters", ())
        if "description" not in parameter
    ]
    assert bare == [], "write a text in src/trunkline/api/texts.py"


def test_every_name_is_of_words_with_underscores() -> None:
    names = [method_name(route) for route in ROUTES]
    assert [name for name in names if not name.replace("_", "").islower()] == []
    assert len(names) == len({*names})
    assert [route.name for route in ROUTES if len(route.summary) > 120] == []


def test_generated_pages_have_no_trace_of_a_machine() -> None:
    for path in (DOCS / PAGE, DOCS / DOCUMENT, *(FOLDER / name for name in modules(ROUTES))):
        assert str(Path.home()) not in path.read_text("utf-8")
