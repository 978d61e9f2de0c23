"""`AboutApi`: the index, the OpenAPI document and the reference page of the hub."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from trunkline.api.api import PREFIX, Call, Route
from trunkline.api.openapi import document
from trunkline.api.page import POLICY, page
from trunkline.api.reference import reference
from trunkline.protocol import ai_catalog
from trunkline.version import VERSION

_OPENAPI: Final = "/openapi.json"
_REFERENCE: Final = "/reference"
_TAG: Final = "about"


class Links(Struct, frozen=True, kw_only=True, rename="camel"):
    """Addresses of the gateway, as paths."""

    openapi: str
    reference: str
    ai_catalog: str


class Index(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is served here."""

    name: str
    version: str
    links: Links


class _Pages(Struct, frozen=True):
    """The pages, and the routes that they are made of."""

    routes: tuple[Route, ...]
    document: bytes
    page: bytes


class AboutApi:
    def __init__(
        self, routes: Callable[[], Sequence[Route]], *, cookie: str, bearer_format: str
    ) -> None:
        self._routes = routes
        self._cookie = cookie
        self._bearer_format = bearer_format
        self._made = _Pages((), b"", b"")

    def routes(self) -> Iterator[Route]:
        yield Route(
            method="GET",
            path="",
            name="get_index",
            summary="Show what is served here.",
            handle=self._index,
            result=Index,
            is_public=True,
            tag=_TAG,
        )
        yield Route(
            method="GET",
            path=_OPENAPI,
            name="get_openapi",
            summary="Get this reference as an OpenAPI document.",
            handle=self._document,
            result=dict[str, Any],
            is_public=True,
            tag=_TAG,
        )
        yield Route(
            method="GET",
            path=_REFERENCE,
            name="get_reference",
            summary="Get this reference as a page.",
            handle=self._reference,
            result_media_type="text/html",
            is_public=True,
            tag=_TAG,
        )

    async def _index(self, _: Call) -> Index:
        links = Links(
            openapi=PREFIX + _OPENAPI,
            reference=PREFIX + _REFERENCE,
            ai_catalog=ai_catalog.PATH,
        )
        return Index(name="trunkline", version=VERSION, links=links)

    async def _document(self, call: Call) -> Response:
        return _page(call.request, self._pages().document, "application/json", {})

    async def _reference(self, call: Call) -> Response:
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return _page(call.request, self._pages().page, "text/html", headers)

    def _pages(self) -> _Pages:
        routes = tuple(self._routes())
        if routes != self._made.routes:
            made = document(routes, cookie=self._cookie, bearer_format=self._bearer_format)
            self._made = _Pages(routes, msgspec.json.encode(made), page(reference(made)).encode())
        return self._made


def _page(request: Request, body: bytes, media_type: str, headers: dict[str, str]) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    own = {
        "ETag": tag,
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
        **headers,
    }
    known = request.headers.get("if-none-match", "")
    if tag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=304, headers=own)
    return Response(body, headers=own, media_type=media_type)
