"""One request and its answer, as each binding writes them."""

from typing import Protocol
from urllib.parse import unquote

from msgspec import Struct

from trunkline.model.errors import VersionNotSupported, WrongHttpMethod
from trunkline.protocol import errors, jsonrpc, rest
from trunkline.protocol.dialect import Dialect, RequestValue
from trunkline.protocol.limits import check_json
from trunkline.protocol.operations import Operation
from trunkline.protocol.v03 import V03
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version, negotiate
from trunkline.server.http import Request

_JSONRPC_DIALECTS: dict[Version, Dialect] = {Version.V1_0: V1, Version.V0_3: V03}


class Limits(Struct, frozen=True, kw_only=True):
    max_body_bytes: int = 10 * 1024 * 1024
    max_json_depth: int = 64


class Exchange(Protocol):
    """`read` comes first; the answers come out in the version that the request used."""

    binding: str
    operation: Operation | None
    dialect: Dialect
    content_type: bytes

    async def read(self, request: Request, limits: Limits) -> RequestValue: ...

    def result(self, body: bytes) -> bytes: ...

    def envelope(self) -> tuple[bytes, bytes]:
        """What `result` puts before and behind a body."""

    def error(self, error: Exception) -> tuple[int, bytes]: ...


class JsonRpcExchange:
    __slots__ = ("_default", "_id", "content_type", "dialect", "operation")

    binding = "jsonrpc"

    def __init__(self, default: Version) -> None:
        self._default = default
        self._id = jsonrpc.NULL
        self.dialect = _JSONRPC_DIALECTS[default]
        self.operation: Operation | None = None
        self.content_type = b"application/json"

    async def read(self, request: Request, limits: Limits) -> RequestValue:
        if request.method != "POST":
            raise WrongHttpMethod("JSON-RPC requests are POSTed to this address", allow="POST")
        if request.headers.get(b"content-type") != b"application/json":
            rest.accepts_body(request.header(b"content-type"))
        body = await request.body(limit=limits.max_body_bytes)
        check_json(body, max_depth=limits.max_json_depth)
        call = self._decode(request, body)
        self._id = call.id
        self.operation = call.operation
        self.dialect = _JSONRPC_DIALECTS[call.version]
        return self.dialect.decode(call.operation, call.params)

    def _decode(self, request: Request, body: bytes) -> jsonrpc.Request:
        refusal: VersionNotSupported | None = None
        stated: Version | None = None
        try:
            stated = negotiate(request.header(b"a2a-version"), request.query_value("A2A-Version"))
        except VersionNotSupported as error:
            # Still read the request, because the answer carries its id.
            refusal = error
        try:
            call = jsonrpc.decode(body, stated=stated, default=self._default)
        except jsonrpc.Rejected as rejected:
            self._id = rejected.id
            self.dialect = _JSONRPC_DIALECTS[rejected.version]
            raise (refusal or rejected.error) from None
        if refusal is not None:
            self._id = call.id
            # A client that asks for a version we do not have is newer than 0.3.
            self.dialect = V1
            raise refusal
        return call

    def result(self, body: bytes) -> bytes:
        return jsonrpc.result(self._id, body)

    def envelope(self) -> tuple[bytes, bytes]:
        return jsonrpc.envelope(self._id)

    def error(self, error: Exception) -> tuple[int, bytes]:
        body = jsonrpc.error(self._id, error, self.dialect.version)
        return errors.http_status_for_jsonrpc(error), body


class RestExchange:
    __slots__ = ("_path", "content_type", "dialect", "operation")

    binding = "rest"

    def __init__(self, path: str) -> None:
        """`path` is relative to the interface's URL, as it came, not decoded."""
        self._path = path
        # What an answer looks like that is given before the request is read.
        version = Version.V0_3 if path.startswith("/v1/") else Version.V1_0
        self.dialect = rest.DIALECTS[version]
        self.operation: Operation | None = None
        self.content_type = rest.content_type(None, None, version).encode()

    async def read(self, request: Request, limits: Limits) -> RequestValue:
        kind = request.header(b"content-type")
        self._answer_as(request, kind)
        stated = negotiate(request.header(b"a2a-version"), request.query_value("A2A-Version"))
        if stated is not None:
            self.dialect = rest.DIALECTS[stated]
        route = rest.match(request.method, self._path, stated=stated)
        self.operation = route.operation
        self.dialect = rest.DIALECTS[route.version]
        self._answer_as(request, kind)
        body = await request.body(limit=limits.max_body_bytes)
        if body and request.method == "POST":
            rest.accepts_body(kind)
            check_json(body, max_depth=limits.max_json_depth)
        return rest.decode(route, request.query, body)

    def _answer_as(self, request: Request, kind: str | None) -> None:
        accept = request.header(b"accept")
        self.content_type = rest.content_type(accept, kind, self.dialect.version).encode()

    def result(self, body: bytes) -> bytes:
        return body

    def envelope(self) -> tuple[bytes, bytes]:
        return b"", b""

    def error(self, error: Exception) -> tuple[int, bytes]:
        return rest.error(error, self.dialect.version)


def rest_path(request: Request, prefix: str) -> str:
    """The path below the prefix, still percent-encoded: an id may hold a slash."""
    raw = request.raw_path
    path = request.path if raw is None else raw.partition(b"?")[0].decode("latin-1")
    return path[len(prefix) :] if path.startswith(prefix) else unquote(path)[len(prefix) :]
