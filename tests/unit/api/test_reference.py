"""The reference of the hub: rows of text made of the document, and the page made of them."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from tests.unit.api.test_openapi import Agent, NewAgent, Query, never

from trunkline.api.api import Route
from trunkline.api.openapi import document
from trunkline.api.page import POLICY, page
from trunkline.api.reference import Reference, example_of, kind_of, reference

HOSTILE = '<script>alert("x")</script>'


class Part(Struct, frozen=True, kw_only=True, rename="camel"):
    tag: str


class Nested(Struct, frozen=True, kw_only=True, rename="camel"):
    day_limit: Annotated[int, Meta(ge=3, description=f"Turns `a` {HOSTILE}")]
    note: str = ""
    part: Part
    again: "Nested | None" = None
    handle: Annotated[str, Meta(examples=["acme/rust"])] = ""


def routes() -> list[Route]:
    def route(method: Any, path: str, name: str, **more: Any) -> Route:
        return Route(method=method, path=path, name=name, handle=never, **more)

    return [
        route("GET", "/agents", "listAgents", summary="List", query=Query, result=Agent),
        route(
            "POST", "/agents", "createAgent", summary="Make", description="`name` is needed",
            body=NewAgent, result=Agent, status=201,
        ),
        route("PUT", "/odd/{id}", "odd", summary=HOSTILE, body=Nested, is_public=True),
    ]  # fmt: skip


def made() -> Reference:
    return reference(document(routes(), cookie="c", bearer_format="b"))


class Page(HTMLParser):
    """Reads the page as a browser would: its elements, links and the places they lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"] or "")
        if tag == "a":
            self.links.append(given["href"] or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_operations_are_grouped_with_their_parts() -> None:
    found = made()
    assert [*found.groups] == ["agents", "odd"]
    listed, create = found.groups["agents"]
    assert [(one.name, one.place, one.is_required) for one in listed.parameters] == [
        ("pageSize", "query", False),
        ("owner", "query", False),
        ("day", "query", True),
    ]
    assert (create.method, create.path, create.status) == ("POST", "/api/v1/agents", "201")
    assert (create.body, create.result, create.text) == (
        "[NewAgent]", "[Agent]", "`name` is needed",
    )  # fmt: skip
    assert create.example == '{"name": "…"}'
    assert "409" in create.errors
    (odd,) = found.groups["odd"]
    assert odd.is_public
    assert (odd.status, odd.result) == ("204", "")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, ≥ 1, ≤ 9"),
        ({"$ref": "#/components/schemas/Agent"}, "[Agent]"),
        ({"type": "array", "items": {"$ref": "#/x/Agent"}}, "list of [Agent]"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"type": "object", "additionalProperties": False}, "object"),
        ({"type": ["string", "null"]}, "string or null"),
        ({}, "any JSON"),
    ],
)
def test_types_are_said_in_a_few_words(schema: dict[str, Any], kind: str) -> None:
    assert kind_of(schema) == kind


def test_an_example_has_the_required_members_and_those_with_examples() -> None:
    components = document(routes(), cookie="c", bearer_format="b")["components"]["schemas"]
    made_up = example_of({"$ref": "#/components/schemas/Nested"}, components)
    assert made_up == {"dayLimit": 3, "part": {"tag": "…"}, "handle": "acme/rust"}


def test_the_page_runs_nothing_and_loads_nothing() -> None:
    html = page(made())
    found = Page(html)
    assert found.open == []
    assert {*found.tags}.isdisjoint({"script", "img", "iframe", "link", "form", "object"})
    assert not re.search(r"\son\w+=|javascript:|https?://|\sstyle=", html)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in POLICY
    assert POLICY.startswith("default-src 'none'; ")


def test_texts_stay_texts() -> None:
    html = page(made())
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "Turns <code>a</code>" in html


def test_every_link_of_the_page_leads_to_a_place_of_it() -> None:
    found = Page(page(made()))
    assert len(found.ids) == len({*found.ids})
    inner = {link.removeprefix("#") for link in found.links if link.startswith("#")}
    assert inner <= {*found.ids}
    assert {"type-Agent", "create_agent", "errors"} <= inner
    assert [link for link in found.links if not link.startswith("#")] == ["openapi.json"]
