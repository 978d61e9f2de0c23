"""Write hub-api.md and hub-api.json in docs/reference from the routes of the hub."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.hub_routes import openapi

from trunkline.api.openapi import Json
from trunkline.api.reference import Field, Operation, Reference, Type, reference

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGE, DOCUMENT = "hub-api.md", "hub-api.json"
INTRODUCTION = """\
# HTTP interface of the hub

<!-- Written by tools/gen_api_docs.py from the routes in src/trunkline/hub; edit them there. -->

{text}

Send a credential as `Authorization: Bearer TOKEN`; a browser sends its session cookie by itself. A
gateway with a hub serves this page at `/api/v1/reference` and the OpenAPI document, which is also
in [hub-api.json](hub-api.json), at `/api/v1/openapi.json`. `trunkline.hub.client` is the same as a
Python client, with a method for each route.
"""


def rendered(document: Json) -> str:
    return "\n".join(_page(reference(document))).rstrip() + "\n"


def encoded(document: Json) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _page(found: Reference) -> Iterator[str]:
    yield INTRODUCTION.format(text=found.text)
    for tag, operations in found.groups.items():
        yield f"## {tag.replace('-', ' ').capitalize()}\n"
        for operation in operations:
            yield from _operation(operation)
    yield "## Errors\n\n| status | meaning |\n|---|---|"
    yield from (f"| {status} | {text} |" for status, text in found.errors.items())
    yield "\n## Types\n"
    for kind in found.types:
        yield from _type(kind)


def _operation(operation: Operation) -> Iterator[str]:
    yield f"### `{operation.method} {operation.path}`\n"
    needs = " Needs no credential." if operation.is_public else ""
    text = f" {operation.text}" if operation.text else ""
    yield f"{operation.summary.rstrip('.')}.{text}{needs}\n"
    if operation.parameters:
        yield from _table(operation.parameters)
    if operation.body:
        example = f", for example `{operation.example}`" if operation.example else ""
        kind = f"{_kind(operation.body)}{_as(operation.body_media_type)}"
        yield f"Body: {kind}{example}\n"
    result = f" {_kind(operation.result)}{_as(operation.result_media_type)}"
    errors = ", ".join(operation.errors)
    yield f"Result: {operation.status}{result if operation.result else ''}. Errors: {errors}.\n"


def _as(media_type: str) -> str:
    return "" if media_type in ("", "application/json") else f" as {media_type}"


def _type(kind: Type) -> Iterator[str]:
    yield f"### {kind.name}\n"
    if kind.text:
        yield f"{kind.text}\n"
    if kind.fields:
        yield from _table(kind.fields)


def _table(fields: Iterable[Field]) -> Iterator[str]:
    yield "| name | type | description |\n|---|---|---|"
    for field in fields:
        notes = [field.place, "required" if field.is_required else ""]
        told = ", ".join(note for note in notes if note)
        name = f"`{field.name}`" + (f" ({told})" if told else "")
        cells = (name, _kind(field.kind), field.text)
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
    yield ""


def _kind(kind: str) -> str:
    """A name in brackets becomes a link to its section."""
    return re.sub(r"\[([\w.-]+)\]", lambda name: f"[{name[1]}](#{_anchor(name[1])})", kind)


def _anchor(name: str) -> str:
    return re.sub(r"[^\w-]", "", name.lower())


def main() -> None:
    document = openapi()
    (DOCS / PAGE).write_text(rendered(document), "utf-8")
    (DOCS / DOCUMENT).write_text(encoded(document), "utf-8")


if __name__ == "__main__":
    main()
