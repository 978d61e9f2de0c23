"""`page`: the reference of the hub as one page of HTML, without a script and without anything from
elsewhere."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from trunkline.api.reference import Field, Operation, Reference, Type

_STYLE: Final = """
:root { color-scheme: light dark; --line: #d8dce3; --soft: #f5f6f8; --text: #1d2330;
  --quiet: #5c6578; --accent: #2456c4; }
@media (prefers-color-scheme: dark) { :root { --line: #343b48; --soft: #1c212b; --text: #e4e7ec;
  --quiet: #9aa4b5; --accent: #8ab0ff; } html { background: #12161e; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; color: var(--text); display: grid;
  grid-template-columns: 18rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.5rem 1rem;
  border-right: 1px solid var(--line); font-size: 14px; }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .06em; color: var(--quiet);
  margin: 1.2rem 0 .3rem; border: 0; padding: 0; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: .1rem 0; color: inherit; text-decoration: none;
  overflow-wrap: anywhere; }
nav a:hover, nav a:focus { color: var(--accent); text-decoration: underline; }
main { padding: 2rem 2.5rem 5rem; max-width: 62rem; }
a { color: var(--accent); }
h1 { margin: 0 0 .5rem; }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
section { scroll-margin-top: 1rem; margin: 0 0 2.5rem; }
h3 { margin: 1.6rem 0 .3rem; font-size: 1.1rem; }
h4 { margin: 1rem 0 .2rem; font-size: 13px; color: var(--quiet); }
code, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem;
  overflow-x: auto; margin: .4rem 0; }
.address { background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  padding: .35rem .7rem; overflow-wrap: anywhere; }
.method { font-weight: 700; color: var(--accent); margin-right: .6rem; }
.quiet { color: var(--quiet); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--quiet); font-size: 13px; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0;
  vertical-align: top; overflow-wrap: anywhere; }
td:first-child { white-space: nowrap; }
@media (max-width: 50rem) { body { display: block; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  main { padding: 1.5rem 1rem 4rem; } td:first-child { white-space: normal; } }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# RFC 9110 has no such header; CSP level 3 does. The page loads nothing, runs nothing, sends
# nothing, and stands in no frame.
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def page(reference: Reference) -> str:
    return "".join(_page(reference))


def _page(reference: Reference) -> Iterator[str]:
    title = escape(reference.title)
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}: reference</title><style>{_STYLE}</style></head><body>"
    yield from _navigation(reference)
    yield f"<main><h1>{title}</h1><p>{_text(reference.text)}</p>"
    yield '<p>The same as an <a href="openapi.json">OpenAPI document</a>.</p>'
    for tag, operations in reference.groups.items():
        yield f"<h2>{_heading(tag)}</h2>"
        for operation in operations:
            yield from _operation(operation)
    yield '<h2 id="errors">Errors</h2><table><tr><th>Status</th><th>Meaning</th></tr>'
    for status, text in reference.errors.items():
        yield f"<tr><td>{status}</td><td>{_text(text)}</td></tr>"
    yield '</table><h2 id="types">Types</h2>'
    for kind in reference.types:
        yield from _type(kind)
    yield "</main></body></html>\n"


def _navigation(reference: Reference) -> Iterator[str]:
    yield f'<nav aria-label="Contents"><strong>{escape(reference.title)}</strong>'
    for tag, operations in reference.groups.items():
        yield f"<h2>{_heading(tag)}</h2><ul>"
        for operation in operations:
            name = escape(operation.summary.rstrip("."))
            yield f'<li><a href="#{escape(operation.name)}">{name}</a></li>'
        yield "</ul>"
    yield '<h2>More</h2><ul><li><a href="#errors">Errors</a></li>'
    yield '<li><a href="#types">Types</a></li></ul></nav>'


def _heading(tag: str) -> str:
    return escape(tag.replace("-", " ").capitalize())


def _operation(operation: Operation) -> Iterator[str]:
    yield f'<section id="{escape(operation.name)}"><h3>{escape(operation.summary.rstrip("."))}</h3>'
    yield f'<p class="address"><code><span class="method">{operation.method}</span>'
    yield f"{escape(operation.path)}</code></p>"
    if operation.text:
        yield f"<p>{_text(operation.text)}</p>"
    if operation.is_public:
        yield '<p class="quiet">Needs no credential.</p>'
    if operation.parameters:
        yield "<h4>Parameters</h4>"
        yield from _table(operation.parameters)
    if operation.body:
        yield f"<h4>Body</h4><p>{_kind(operation.body)}{_as(operation.body_media_type)}</p>"
    if operation.example:
        yield f"<pre>{escape(operation.example)}</pre>"
    result = f"{_kind(operation.result)}{_as(operation.result_media_type)}"
    yield f"<h4>Result</h4><p>{operation.status} {result if operation.result else ''}</p>"
    errors = ", ".join(operation.errors)
    yield f'<p class="quiet">Errors: <a href="#errors">{errors}</a></p></section>'


def _as(media_type: str) -> str:
    return "" if media_type in ("", "application/json") else f" as {escape(media_type)}"


def _type(kind: Type) -> Iterator[str]:
    yield f'<section id="type-{escape(kind.name)}"><h3>{escape(kind.name)}</h3>'
    if kind.text:
        yield f"<p>{_text(kind.text)}</p>"
    if kind.fields:
        yield from _table(kind.fields)
    yield "</section>"


def _table(fields: Iterable[Field]) -> Iterator[str]:
    yield "<table><tr><th>Name</th><th>Type</th><th>Description</th></tr>"
    for field in fields:
        need = " <span class='quiet'>required</span>" if field.is_required else ""
        place = f" <span class='quiet'>{field.place}</span>" if field.place else ""
        yield f"<tr><td><code>{escape(field.name)}</code>{place}{need}</td>"
        yield f"<td>{_kind(field.kind)}</td><td>{_text(field.text)}</td></tr>"
    yield "</table>"


def _kind(kind: str) -> str:
    """A type in words; a name in brackets becomes a link."""
    return re.sub(r"\[([\w.-]+)\]", r'<a href="#type-\1">\1</a>', escape(kind, quote=False))


def _text(text: str) -> str:
    """Text with `code` in it."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
