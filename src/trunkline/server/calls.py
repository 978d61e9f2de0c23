"""`JsonRpcCall` and `RestCall`: one call of an operation, as its binding reads and answers it."""

from typing import ClassVar, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    TrunklineError,
    VersionNotSupported,
    WrongHttpMethod,
)
from trunkline.protocol import jsonrpc, rest, sse
from trunkline.protocol.dialects import Dialect
from trunkline.protocol.limits import check_json
from trunkline.protocol.operations import OPTIONAL, STREAMING, RequestValue
from trunkline.protocol.rest_routes import Route, match
from trunkline.protocol.v1 import V1
from trunkline.protocol.versions import Version, negotiate
from trunkline.server.endpoint import Endpoint
from trunkline.server.http import Request


class JsonRpcCall(Struct, eq=False):
    """`begin` and `read` come first, with the body between them; results and errors are then
    written in the version that the request used."""

    binding: ClassVar[str] = "jsonrpc"
    content_type: ClassVar[bytes] = b"application/json"

    endpoint: Endpoint
    dialect: Dialect
    operation: Operation | None = None
    # The bytes before and behind every result.
    envelope: tuple[bytes, bytes] = (b"", b"")
    _id: bytes = jsonrpc.NULL
    _stated: Version | None = None

    def begin(self, request: Request) -> None:
        """Check the head of the request; raises when it is wrong."""
        if request.method != "POST":
            raise WrongHttpMethod("JSON-RPC requests are POSTed to this address", allow="POST")
        if request.headers.get(b"content-type") != b"application/json":
            rest.accepts_body(request.header(b"content-type"))

    def read(self, request: Request, body: bytes) -> RequestValue:
        endpoint = self.endpoint
        dialects = endpoint.dialects
        # A refused body is still decoded, because the client expects its id in the response, and a
        # stream if it asked for one.
        refusal: TrunklineError | None = None
        try:
            check_json(body, max_depth=endpoint.limits.max_json_depth)
        except InvalidRequest as error:
            refusal = error
        except InvalidParams as error:
            # The body has too many values. To explain a wrong envelope would mean reading all of
            # them.
            if not jsonrpc.is_request(body):
                raise
            refusal = error
        header = request.headers.get(b"a2a-version")
        is_supported = True
        if not request.query and header in dialects.by_header:
            stated = dialects.by_header[header]
        else:
            try:
                stated = negotiate(
                    request.header(b"a2a-version"),
                    request.query_value("A2A-Version"),
                    dialects.versions,
                )
            except VersionNotSupported as error:
                stated, is_supported, refusal = None, False, refusal or error
        self._stated = stated
        try:
            call = jsonrpc.decode(body, stated=stated, names=dialects)
        except jsonrpc.Rejected as rejected:
            self._reject(rejected, is_supported=is_supported)
            raise refusal or self._first_error(rejected) from None
        self._id = call.id
        if not is_supported and refusal is not None:
            # A client that sent A2A-Version understands VersionNotSupported, which 0.3 lacks.
            self.dialect = V1
            raise refusal
        operation = self.operation = call.operation
        spoken = dialects.unstated_jsonrpc if stated is None else dialects.jsonrpc
        dialect = self.dialect = spoken[call.version]
        if refusal is not None:
            raise refusal
        if operation in OPTIONAL:
            endpoint.check_offered(operation, call.version)
        value = dialect.decoders[operation](call.params)
        if call.lacks_id:
            raise jsonrpc.missing_id()
        if not dialect.streams_whole_tasks or operation not in STREAMING:
            self.envelope = (jsonrpc.RESULT % call.id, b"}")
        return value

    def _reject(self, rejected: jsonrpc.Rejected, *, is_supported: bool) -> None:
        self._id = rejected.id
        if not is_supported:
            self.dialect = V1
            return
        if not self.endpoint.dialects.errors.is_in_stream:
            self.operation = rejected.operation
        self.dialect = self.endpoint.dialects.jsonrpc[rejected.version]

    def _first_error(self, rejected: jsonrpc.Rejected) -> TrunklineError:
        """A2A 1.0, 3.3.4: a capability that the card lacks counts before bad parameters."""
        if self.operation in OPTIONAL and isinstance(rejected.error, InvalidParams):
            self.endpoint.check_offered(self.operation, rejected.version)
        return rejected.error

    def error(self, error: Exception) -> tuple[int, bytes]:
        style = self.endpoint.dialects.errors
        body = jsonrpc.error(self._id, error, self.dialect.version, style.error)
        return style.http_status(error), body

    def error_event(self, error: Exception) -> bytes | None:
        """The error as the one event of a refused stream, where clients expect a stream even
        then; None where the error is a response of its own."""
        if self.operation not in STREAMING:
            return None
        # 0.3, 3.3.1: the response of message/stream and tasks/resubscribe is text/event-stream.
        # The SDKs of 0.3 take an error of another media type for a broken response and lose it. A
        # client that states a version is newer: it reads a plain error, and knows its type.
        is_of_0_3 = self._stated is None and (
            self.dialect.version is Version.V0_3 or isinstance(error, VersionNotSupported)
        )
        style = self.endpoint.dialects.errors
        # An error of the HTTP request itself must show in the status.
        if not (is_of_0_3 or style.is_in_stream) or style.http_status(error) != 200:
            return None
        return self.error_frame(error)

    def error_frame(self, error: Exception) -> bytes:
        """The error as one more event of a stream that has begun."""
        return sse.frame(self.error(error)[1], event=self.endpoint.dialects.errors.event_name)


class RestCall:
    __slots__ = ("_path", "_route", "content_type", "dialect", "endpoint", "operation")

    binding = "rest"
    envelope = (b"", b"")

    def __init__(self, endpoint: Endpoint, prefix: str, request: Request) -> None:
        """`prefix` is the path of the interface."""
        self.endpoint = endpoint
        self._path = _path_below(prefix, request)
        self._route: Route | None = None
        # The path determines the dialect of an error before the request is read.
        version = Version.V0_3 if self._path.startswith("/v1/") else Version.V1_0
        self.dialect = endpoint.dialects.rest[version]
        self.operation: Operation | None = None
        self.content_type = rest.content_type(
            request.header(b"accept"), request.header(b"content-type")
        ).encode()

    def begin(self, request: Request) -> None:
        dialects = self.endpoint.dialects
        stated = negotiate(
            request.header(b"a2a-version"), request.query_value("A2A-Version"), dialects.versions
        )
        if stated is not None:
            self.dialect = dialects.rest[stated]
        route = match(
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

    def read(self, request: Request, body: bytes) -> RequestValue:
        assert self._route is not None
        if self._route.operation in OPTIONAL:
            self.endpoint.check_offered(self._route.operation, self._route.version)
        if body and request.method == "POST":
            rest.accepts_body(request.header(b"content-type"))
            check_json(body, max_depth=self.endpoint.limits.max_json_depth)
        return rest.decode(self._route, request.query, body, self.endpoint.dialects.rest)

    def error(self, error: Exception) -> tuple[int, bytes]:
        return rest.error(error, self.dialect.version)

    def error_event(self, error: Exception) -> bytes | None:
        # A2A 1.0, 11.6: the HTTP status tells clients of an error.
        return None

    def error_frame(self, error: Exception) -> bytes:
        return rest.error_frame(error, self.dialect.version)


Call: TypeAlias = JsonRpcCall | RestCall


def _path_below(prefix: str, request: Request) -> str:
    """The path below the prefix, still percent-encoded: an id may hold a slash."""
    raw = request.raw_path
    path = request.path if raw is None else raw.partition(b"?")[0].decode("latin-1")
    return path[len(prefix) :] if path.startswith(prefix) else unquote(path)[len(prefix) :]
