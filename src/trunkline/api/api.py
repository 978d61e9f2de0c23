"""`Api`: the HTTP interface of the hub, below `/api/v1`, as a table of routes.

Each route names the types of its query, body and result. They check what comes in, and the OpenAPI
document is made of the same table, so that the two cannot differ.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from trunkline.api.acting import Acting, acting
from trunkline.api.errors import Json
from trunkline.api.input import JSON, MAX_BODY_BYTES, read_body, read_json, read_query
from trunkline.api.paths import RouteTable
from trunkline.model.errors import (
    Conflict,
    PermissionDenied,
    RecordConflict,
    RouteNotFound,
    StoreError,
    TrunklineError,
    Unauthenticated,
    Unavailable,
    WrongHttpMethod,
)
from trunkline.model.principal import OPERATOR, Principal
from trunkline.protocol import rest
from trunkline.protocol.versions import Version

__all__ = ["PREFIX", "Api", "Call", "Handler", "Identify", "OnRefusal", "Route", "read_body"]

_log = logging.getLogger("trunkline.hub")

PREFIX: Final = "/api/v1"
_RETRY_AFTER_S: Final = 5
# Answers tell about credentials and callers, so no cache keeps them; and no browser takes the text
# of a client in an error for a page.
_GUARDED: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Call(Struct, frozen=True, kw_only=True):
    """One request, checked."""

    # None where the route needs no credential and the request has none.
    principal: Principal | None
    path: Mapping[str, str]
    # What `Route.authorize` returned.
    authorized: Any
    # Of the types that the route names; None where it names none.
    query: Any
    body: Any
    request: Request

    @property
    def caller(self) -> Principal:
        if self.principal is None:
            raise Unauthenticated("This address needs a credential")
        return self.principal

    def require_operator(self) -> Principal:
        """Raises PermissionDenied for a caller that does not manage the whole gateway."""
        if OPERATOR not in self.caller.roles:
            raise PermissionDenied("Only operators of the gateway may do this")
        return self.caller


# Returns a value of the type that the route names, or a whole response, for example a redirect.
Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


class Route(Struct, frozen=True, kw_only=True):
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    # Below the prefix, such as `/agents/{id}`. `paths.PARAMETERS` has the grammar of its
    # parameters.
    path: str
    # The name in the OpenAPI document and, with underscores, of the method of the Python client.
    name: str
    # One line, and more where it takes more.
    summary: str
    description: str = ""
    # The group in the document; without, the first segment of the path.
    tag: str = ""
    handle: Handler
    # A msgspec struct, whose fields are optional or texts, numbers and switches.
    query: type[Struct] | None = None
    body: Any = None
    # A body as a client may send it, for the document; else it is made of the types.
    example: Struct | None = None
    # The type of the result; None for an empty answer.
    result: Any = None
    # Of a redirect, 302 or 303.
    status: int = 200
    # Further statuses without an error, for routes that people open in a browser: 200 for a page,
    # 303 for a redirect.
    also: tuple[int, ...] = ()
    # For handlers that return a whole response of another media type.
    result_media_type: str = JSON
    # Whether the answer is a stream that has no end, which the generated client cannot return.
    is_endless: bool = False
    # Whether a caller needs a credential; without, `Call.principal` may be None.
    is_public: bool = False
    # The type of those errors that a standard has in a form of its own, such as OAuth.
    error: type[Struct] | None = None
    # Statuses of errors beside those that every route may answer with, which `api/openapi.py`
    # names; `api/errors.py` has their texts.
    errors: tuple[int, ...] = ()
    # What members of these types mean, by their names or as `Type.member`, where `api/texts.py`
    # does not say it.
    texts: Mapping[str, str] = {}
    # A JSON Schema of the body and its name, where `body` says too little; and what reads the body
    # then. Raises TrunklineError.
    body_schema: tuple[str, Json] | None = None
    decoder: Callable[[bytes], Any] | None = None
    max_body_bytes: Callable[[], int] = lambda: MAX_BODY_BYTES
    # For routes of standards that have other media types, such as forms of OAuth. Their handlers
    # read the body themselves.
    body_media_type: str = JSON
    # Whether a credential is looked for. Without, an invalid one does not matter either.
    takes_credential: bool = True
    # Finds out who may use the route, where that is no caller of the gateway. Raises
    # Unauthenticated or PermissionDenied.
    authorize: "Authorize | None" = None
    # The answer to an error, for routes that people open in a browser.
    on_error: "OnError | None" = None

    @property
    def success(self) -> int:
        """The status of an answer that is not an error."""
        has_content = self.result is not None or self.result_media_type != JSON
        return 204 if self.status == 200 and not has_content else self.status


# The principal of a request, or None for one without a credential. Raises Unauthenticated,
# PermissionDenied or Unavailable.
Identify: TypeAlias = Callable[[Request], Awaitable[Principal | None]]
Authorize: TypeAlias = Callable[[Request], Awaitable[Any]]
OnError: TypeAlias = Callable[[Request, TrunklineError], Response]
# Told of every call that was refused: the request, the principal if it is known, and the error.
OnRefusal: TypeAlias = Callable[[Request, Principal | None, TrunklineError], None]


class Api:
    """An ASGI application. Routes can be added at any time."""

    def __init__(
        self, *, identify: Identify, on_refusal: OnRefusal = lambda *_: None, realm: str
    ) -> None:
        self.identify = identify
        self._on_refusal = on_refusal
        self._realm = realm
        self.routes: list[Route] = []
        self._table: RouteTable[Route] | None = None

    def add(self, *routes: Route) -> None:
        self.routes += routes
        self._table = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        """Raises ClientDisconnect for a client that left before its body had come."""
        principal: Principal | None = None
        route: Route | None = None
        authorized: Any = None
        try:
            route, path = self._find(request)
            if route.authorize is not None:
                authorized = await route.authorize(request)
            elif route.takes_credential:
                principal = await self._identified(request, route)
            if principal is None and authorized is None and not route.is_public:
                raise Unauthenticated(
                    "This address needs a credential: send it as 'Authorization: Bearer TOKEN'"
                )
            acting.set(
                Acting(action=route.name)
                if principal is None
                else Acting(principal.id, principal.token, route.name)
            )
            call = await _call(route, path, principal, authorized, request)
            result = await route.handle(call)
        except TrunklineError as error:
            self._tell(request, principal, error)
            return self._refusal(request, error, None if route is None else route.on_error)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("a request to the hub failed", extra={"path": request.url.path})
            return _response(error, {})
        if isinstance(result, Response):
            return result
        if route.result is None:
            return Response(status_code=route.success, headers=_GUARDED)
        return Response(msgspec.json.encode(result), route.status, _GUARDED, media_type=JSON)

    async def _identified(self, request: Request, route: Route) -> Principal | None:
        """Raises Unauthenticated, PermissionDenied or Unavailable."""
        try:
            return await self.identify(request)
        except Unauthenticated as error:
            # A gateway that asks every caller for a credential shows some routes without one.
            stated = {"authorization", "x-api-key"}.intersection(request.headers.keys())
            if route.is_public and not error.has_credential and not stated:
                return None
            raise

    def _find(self, request: Request) -> tuple[Route, Mapping[str, str]]:
        """Raises RouteNotFound or WrongHttpMethod."""
        if self._table is None:
            rows = ((route.method, route.path, route) for route in self.routes)
            self._table = RouteTable(PREFIX, rows)
        raw_path = request.scope.get("raw_path")
        if raw_path is None:
            raw_path = quote(request.scope["path"]).encode()
        found = self._table.find(raw_path.partition(b"?")[0])
        if found is None:
            raise RouteNotFound(f"Nothing is served at this path of {PREFIX}")
        routes, path = found
        # The answer to HEAD is that to GET; the server leaves out the body.
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(("HEAD", *routes) if "GET" in routes else routes)
            raise WrongHttpMethod(f"This address takes {allowed}", allow=allowed)
        return route, path

    def _tell(self, request: Request, principal: Principal | None, error: TrunklineError) -> None:
        try:
            self._on_refusal(request, principal, error)
        except Exception:  # noqa: BLE001 - logged; the client gets its answer
            _log.exception("a refusal could not be recorded")

    def _refusal(
        self, request: Request, error: TrunklineError, on_error: OnError | None
    ) -> Response:
        if isinstance(error, RecordConflict):
            error = Conflict("Another request changed the same thing meanwhile; read it again")
        elif isinstance(error, StoreError):
            # The store's own messages name files of this machine.
            _log.warning("the hub cannot use its store", extra={"reason": error.message})
            error = Unavailable(
                "The hub cannot use its store at the moment; try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        headers: dict[str, str] = {}
        if isinstance(error, Unauthenticated):
            # RFC 6750, 3.1: a request without a credential gets no error code.
            is_wrong = error.has_credential or "authorization" in request.headers
            code = ', error="invalid_token"' if is_wrong else ""
            headers["WWW-Authenticate"] = f'Bearer realm="{self._realm}"{code}'
        if isinstance(error, PermissionDenied) and "authorization" in request.headers:
            challenge = f'Bearer realm="{self._realm}", error="insufficient_scope"'
            headers["WWW-Authenticate"] = challenge
        if (retry_s := getattr(error, "retry_after_s", None)) is not None:
            headers["Retry-After"] = str(retry_s)
        if isinstance(error, WrongHttpMethod):
            headers["Allow"] = error.allow
        if on_error is not None:
            response = on_error(request, error)
            response.headers.update(headers)
            return response
        return _response(error, headers)


async def _call(
    route: Route,
    path: Mapping[str, str],
    principal: Principal | None,
    authorized: Any,
    request: Request,
) -> Call:
    query = body = None
    if route.query is not None:
        query = read_query(request.scope["query_string"], route.query)
    if route.body is not None and route.body_media_type == JSON:
        body = await read_json(
            request, route.body, max_bytes=route.max_body_bytes(), decoder=route.decoder
        )
    return Call(
        principal=principal,
        path=path,
        authorized=authorized,
        query=query,
        body=body,
        request=request,
    )


def _response(error: Exception, headers: Mapping[str, str]) -> Response:
    status, body = rest.error(error, Version.V1_0)
    return Response(body, status, {**_GUARDED, **headers}, media_type=JSON)
