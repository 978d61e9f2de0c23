"""One request and its answer, as each binding writes them."""

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from trunkline.model.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    TrunklineError,
    VersionNotSupported,
    WrongHttpMethod,
)
from trunkline.protocol import jsonrpc, rest, sse
from trunkline.protocol.dialect import Dialect, RequestValue
from trunkline.protocol.dialects import Dialects
from trunkline.protocol.limits import check_json
from trunkline.protocol.operations import OPTIONAL, STREAMING, Operation
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version, negotiate
from trunkline.server.http import Request


class Limits(Struct, frozen=True, kw_only=True):
    max_body_bytes: int = 10 * 1024 * 1024
    max_json_depth: int = 64


CheckOffered: TypeAlias = Callable[[Operation, Version], None]


class Exchange(Protocol):
    """`begin` and `read` come first, with the body between them; the answers come out in the
    version that the request used."""

    binding: str
    operation: Operation | None
    dialect: Dialect
    content_type: bytes

    def begin(self, request: Request) -> None:
        """Raises for what is wrong with the head."""

    def read(
        self, request: Request, body: bytes, limits: Limits, check_offered: CheckOffered
    ) -> RequestValue:
        """`check_offered` raises for an operation that needs a capability the agent lacks."""

    def result(self, body: bytes) -> bytes: ...

    def envelope(self) -> tuple[bytes, bytes]:
        """What `result` puts before and behind a body."""

    def error(self, error: Exception) -> tuple[int, bytes]: ...

    def error_event(self, error: Exception) -> bytes | None:
        """The error as the one event of a stream that is refused, where clients expect a stream
        even then; None where the error is an answer of its own."""

    def error_frame(self, error: Exception) -> bytes:
        """The error as one more event of a stream that has begun."""


class JsonRpcExchange:
    __slots__ = ("_dialects", "_id", "_stated", "content_type", "dialect", "operation")

    binding = "jsonrpc"

    def __init__(self, dialects: Dialects) -> None:
        self._dialects = dialects
        self._id = jsonrpc.NULL
        self._stated: Version | None = None
        self.dialect = dialects.jsonrpc[dialects.names.default]
        self.operation: Operation | None = None
        self.content_type = b"application/json"

    def begin(self, request: Request) -> None:
        if request.method != "POST":
            raise WrongHttpMethod("JSON-RPC requests are POSTed to this address", allow="POST")
        if request.headers.get(b"content-type") != b"application/json":
            rest.accepts_body(request.header(b"content-type"))

    def read(
        self, request: Request, body: bytes, limits: Limits, check_offered: CheckOffered
    ) -> RequestValue:
        try:
            check_json(body, max_depth=limits.max_json_depth)
        except InvalidRequest:
            self._glance_at(request, body, check_offered)
            raise
        except InvalidParams:
            # Too many values. Why an envelope is none takes as long as to read them all.
            if jsonrpc.is_request(body):
                self._glance_at(request, body, check_offered)
            raise
        call = self._decode(request, body, check_offered)
        self._id = call.id
        operation = self.operation = call.operation
        self.dialect = self._dialects.jsonrpc[call.version]
        if operation in OPTIONAL:
            check_offered(operation, call.version)
        value = self.dialect.decode(operation, call.params)
        if call.lacks_id:
            raise jsonrpc.missing_id()
        return value

    def _glance_at(self, request: Request, body: bytes, check_offered: CheckOffered) -> None:
        """Id and operation of a body that is refused as a whole: clients look for their id in the
        answer, and for a stream where they asked for one."""
        with suppress(TrunklineError):
            call = self._decode(request, body, check_offered)
            self._id = call.id
            self.operation = call.operation
            self.dialect = self._dialects.jsonrpc[call.version]

    def _decode(
        self, request: Request, body: bytes, check_offered: CheckOffered
    ) -> jsonrpc.Request:
        dialects = self._dialects
        refusal: VersionNotSupported | None = None
        stated: Version | None = None
        try:
            self._stated = stated = negotiate(
                request.header(b"a2a-version"),
                request.query_value("A2A-Version"),
                dialects.versions,
            )
        except VersionNotSupported as error:
            # Still read the request, because the answer carries its id.
            refusal = error
        try:
            call = jsonrpc.decode(body, stated=stated, names=dialects.names)
        except jsonrpc.Rejected as rejected:
            self._id = rejected.id
            if refusal is not None:
                raise self._other_version(refusal) from None
            if not dialects.errors.is_in_stream:
                # OpenClaw's plugin answers a bad envelope plainly, whatever was asked for.
                self.operation = rejected.operation
            self.dialect = dialects.jsonrpc[rejected.version]
            if self.operation in OPTIONAL and isinstance(rejected.error, InvalidParams):
                check_offered(self.operation, rejected.version)
            raise rejected.error from None
        if refusal is not None:
            self._id = call.id
            raise self._other_version(refusal)
        return call

    def _other_version(self, refusal: VersionNotSupported) -> VersionNotSupported:
        # A client that sent A2A-Version understands VersionNotSupported, which is newer than 0.3.
        self.dialect = V1
        return refusal

    def result(self, body: bytes) -> bytes:
        return jsonrpc.result(self._id, body)

    def envelope(self) -> tuple[bytes, bytes]:
        return jsonrpc.envelope(self._id)

    def error(self, error: Exception) -> tuple[int, bytes]:
        style = self._dialects.errors
        body = jsonrpc.error(self._id, error, self.dialect.version, style.error)
        return style.http_status(error), body

    def error_event(self, error: Exception) -> bytes | None:
        if self.operation not in STREAMING:
            return None
        # 0.3, 3.3.1: message/stream and tasks/resubscribe are answered by text/event-stream. The
        # SDKs of 0.3 take an error of another media type for a broken answer and lose it. A
        # client that states a version is newer: it reads a plain error, and knows its type.
        is_of_0_3 = self._stated is None and (
            self.dialect.version is Version.V0_3 or isinstance(error, VersionNotSupported)
        )
        if not (is_of_0_3 or self._dialects.errors.is_in_stream):
            return None
        # What is about the HTTP request itself must show in the status.
        is_about_http = self._dialects.errors.http_status(error) != 200
        return None if is_about_http else self.error_frame(error)

    def error_frame(self, error: Exception) -> bytes:
        return sse.frame(self.error(error)[1], event=self._dialects.errors.event_name)


class RestExchange:
    __slots__ = ("_dialects", "_path", "_route", "content_type", "dialect", "operation")

    binding = "rest"

    def __init__(self, path: str, dialects: Dialects, request: Request) -> None:
        """`path` is relative to the interface's URL, as it came, not decoded."""
        self._path = path
        self._dialects = dialects
        self._route: rest.Route | None = None
        # What an answer looks like that is given before the request is read.
        version = Version.V0_3 if path.startswith("/v1/") else Version.V1_0
        self.dialect = dialects.rest[version]
        self.operation: Operation | None = None
        self.content_type = rest.content_type(
            request.header(b"accept"), request.header(b"content-type")
        ).encode()

    def begin(self, request: Request) -> None:
        dialects = self._dialects
        stated = negotiate(
            request.header(b"a2a-version"), request.query_value("A2A-Version"), dialects.versions
        )
        if stated is not None:
            self.dialect = dialects.rest[stated]
        route = rest.match(
            request.method,
            self._path,
            stated=stated,
            only=dialects.only,
            unstated=dialects.unstated,
        )
        if route.operation in dialects.hidden:
            raise MethodNotFound(
                f"This agent does not serve {route.operation}",
                metadata={"method": route.operation},
            )
        self._route = route
        self.operation = route.operation
        self.dialect = dialects.rest[route.version]

    def read(
        self, request: Request, body: bytes, limits: Limits, check_offered: CheckOffered
    ) -> RequestValue:
        assert self._route is not None
        if self._route.operation in OPTIONAL:
            check_offered(self._route.operation, self._route.version)
        if body and request.method == "POST":
            rest.accepts_body(request.header(b"content-type"))
            check_json(body, max_depth=limits.max_json_depth)
        return rest.decode(self._route, request.query, body, self._dialects.rest)

    def result(self, body: bytes) -> bytes:
        return body

    def envelope(self) -> tuple[bytes, bytes]:
        return b"", b""

    def error(self, error: Exception) -> tuple[int, bytes]:
        return rest.error(error, self.dialect.version)

    def error_event(self, error: Exception) -> bytes | None:
        # Clients know it by the HTTP status.
        return None

    def error_frame(self, error: Exception) -> bytes:
        return rest.error_frame(error, self.dialect.version)


def rest_path(request: Request, prefix: str) -> str:
    """The path below the prefix, still percent-encoded: an id may hold a slash."""
    raw = request.raw_path
    path = request.path if raw is None else raw.partition(b"?")[0].decode("latin-1")
    return path[len(prefix) :] if path.startswith(prefix) else unquote(path)[len(prefix) :]
