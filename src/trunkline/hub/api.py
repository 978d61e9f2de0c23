"""`Api`: the HTTP interface of the hub, below `/api/v1`, as a table of routes.

Each route names the types of its query, body and result. They check what comes in, and the OpenAPI
document is made of the same table, so that the two cannot differ.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from trunkline.model.errors import (
    InvalidParams,
    PayloadTooLarge,
    PermissionDenied,
    RouteNotFound,
    StoreError,
    TrunklineError,
    Unauthenticated,
    Unavailable,
    WrongHttpMethod,
    WrongMediaType,
)
from trunkline.model.principal import OPERATOR, Principal
from trunkline.protocol import rest
from trunkline.protocol.limits import check_json, query_fields
from trunkline.protocol.versions import Version

_log = logging.getLogger("trunkline.hub")

PREFIX: Final = "/api/v1"
MAX_BODY_BYTES: Final = 256 * 1024
_MAX_DEPTH: Final = 32
_RETRY_AFTER_S: Final = 5
_PARAMETER: Final = "{"


class Call(Struct, frozen=True, kw_only=True):
    """One request, checked."""

    # None where the route needs no credential and the request has none.
    principal: Principal | None
    path: Mapping[str, str]
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
    # Below the prefix, such as `/agents/{id}`.
    path: str
    # The name in the OpenAPI document and in the Python client.
    name: str
    summary: str
    handle: Handler
    # A msgspec struct, whose fields are optional or texts, numbers and switches.
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    # The type of the result; None for an empty answer.
    result: Any = None
    status: int = 200
    # Whether a caller needs a credential; without, `Call.principal` may be None.
    is_public: bool = False
    # Statuses of errors beside 400, 401, 403, 404, 429 and 503.
    errors: tuple[int, ...] = ()
    # For routes of standards that have other media types, such as forms of OAuth.
    body_media_type: str = "application/json"


# The principal of a request, or None for one without a credential. Raises Unauthenticated,
# PermissionDenied or Unavailable.
Identify: TypeAlias = Callable[[Request], Awaitable[Principal | None]]
# Told of every call that was refused: the request, the principal if it is known, and the error.
OnRefusal: TypeAlias = Callable[[Request, Principal | None, TrunklineError], None]


class Api:
    """An ASGI application. Routes can be added until the first request."""

    def __init__(
        self, *, identify: Identify, on_refusal: OnRefusal = lambda *_: None, realm: str
    ) -> None:
        self._identify = identify
        self._on_refusal = on_refusal
        self._realm = realm
        self.routes: list[Route] = []
        self._app: Starlette | None = None

    def add(self, *routes: Route) -> None:
        self.routes += routes
        self._app = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            self._app = self._made()
        await self._app(scope, receive, send)

    def _made(self) -> Starlette:
        by_path: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            by_path.setdefault(route.path, {})[route.method] = route
        # Paths without parameters come first, so that `/agents/by-handle` is no id.
        paths = sorted(by_path, key=lambda path: path.count(_PARAMETER))
        served = [
            StarletteRoute(PREFIX + path, _Path(self, by_path[path]), name=path) for path in paths
        ]
        return Starlette(routes=[*served, StarletteRoute("/{path:path}", _Path(self, {}))])

    async def answer(self, routes: Mapping[str, Route], request: Request) -> Response:
        principal: Principal | None = None
        try:
            if not routes:
                raise RouteNotFound(f"Nothing is served at this path of {PREFIX}")
            # HEAD is a GET whose body the server drops.
            method = "GET" if request.method == "HEAD" else request.method
            route = routes.get(method)
            if route is None:
                allowed = ", ".join(routes)
                raise WrongHttpMethod(f"This address takes {allowed}", allow=allowed)
            principal = await self._identify(request)
            if principal is None and not route.is_public:
                raise Unauthenticated(
                    "This address needs a credential: send it as 'Authorization: Bearer TOKEN'"
                )
            call = Call(
                principal=principal,
                path=request.path_params,
                query=_query(route, request),
                body=await _body(route, request),
                request=request,
            )
            result = await route.handle(call)
        except TrunklineError as error:
            self._tell(request, principal, error)
            return self._refusal(error)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - logged here; the client learns nothing of it
            _log.exception("a request to the hub failed", extra={"path": request.url.path})
            body, status, media_type = _error(error)
            return Response(body, status, media_type=media_type)
        if isinstance(result, Response):
            return result
        if route.result is None:
            return Response(status_code=204)
        return Response(
            msgspec.json.encode(result),
            route.status,
            {"Cache-Control": "no-store"},
            media_type="application/json",
        )

    def _tell(self, request: Request, principal: Principal | None, error: TrunklineError) -> None:
        try:
            self._on_refusal(request, principal, error)
        except Exception:  # noqa: BLE001 - logged; the client gets its answer
            _log.exception("a refusal could not be recorded")

    def _refusal(self, error: TrunklineError) -> Response:
        if isinstance(error, StoreError):
            # The store's own messages name files of this machine.
            error = Unavailable(
                "The hub cannot use its store at the moment; try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        headers: dict[str, str] = {}
        if isinstance(error, Unauthenticated):
            headers["WWW-Authenticate"] = f'Bearer realm="{self._realm}"'
        if (retry_s := getattr(error, "retry_after_s", None)) is not None:
            headers["Retry-After"] = str(retry_s)
        if isinstance(error, WrongHttpMethod):
            headers["Allow"] = error.allow
        body, status, media_type = _error(error)
        return Response(body, status, headers, media_type=media_type)


class _Path:
    """The routes of one path, which differ in their methods."""

    def __init__(self, api: Api, routes: Mapping[str, Route]) -> None:
        self._api = api
        self._routes = routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        response = await self._api.answer(self._routes, Request(scope, receive))
        await response(scope, receive, send)


def _error(error: Exception) -> tuple[bytes, int, str]:
    status, body = rest.error(error, Version.V1_0)
    return body, status, "application/json"


def _query(route: Route, request: Request) -> Any:
    if route.query is None:
        return None
    names = {field.encode_name for field in msgspec.structs.fields(route.query)}
    given: dict[str, str] = {}
    try:
        pairs: Sequence[tuple[str, str]] = query_fields(
            request.scope["query_string"], errors="strict"
        )
    except UnicodeDecodeError:
        raise InvalidParams.at("query", "is not valid UTF-8") from None
    for name, value in pairs:
        if name in given:
            raise InvalidParams.at(name, "is given more than once")
        if name in names:
            given[name] = value
    try:
        return msgspec.convert(given, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise _violation(error) from None


async def _body(route: Route, request: Request) -> Any:
    if route.body is None or route.body_media_type != "application/json":
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongMediaType("Content-Type must be application/json")
    data = await read_body(request)
    check_json(data, max_depth=_MAX_DEPTH)
    try:
        return msgspec.json.decode(data, type=route.body)
    except msgspec.ValidationError as error:
        raise _violation(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidParams("The body is not JSON") from None


async def read_body(request: Request) -> bytes:
    """The body of a request. Raises PayloadTooLarge."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise PayloadTooLarge(f"The request body is larger than {MAX_BODY_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _violation(error: msgspec.ValidationError) -> InvalidParams:
    """The error names the field as the client wrote it."""
    what, _, where = str(error).partition(" - at `$")
    return InvalidParams.at(where.rstrip("`").lstrip(".") or "body", what)
