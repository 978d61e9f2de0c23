"""One small client per binding and version. They take and give the shapes of 1.0."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from tests.bindings.asgi import Answer, Asgi, Http, Response
from tests.bindings.shapes import V1, Json, Shapes, V03JsonRpc, V03Rest

from trunkline.protocol.checks import Sent, StreamChecker, check
from trunkline.protocol.checks.messages import Binding, Dialect, Direction

# A2A 1.0.1, section 5.4, and JSON-RPC 2.0: code, HTTP status and name of google.rpc.Code.
# The rest is about HTTP itself or Trunkline's own.
ERRORS: dict[str, tuple[int, int, str]] = {
    "TASK_NOT_FOUND": (-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400, "INVALID_ARGUMENT"),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (-32007, 400, "FAILED_PRECONDITION"),
    "EXTENSION_SUPPORT_REQUIRED": (-32008, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (-32009, 400, "FAILED_PRECONDITION"),
    "PARSE_ERROR": (-32700, 400, "INVALID_ARGUMENT"),
    "INVALID_REQUEST": (-32600, 400, "INVALID_ARGUMENT"),
    "METHOD_NOT_FOUND": (-32601, 404, "UNIMPLEMENTED"),
    "INVALID_PARAMS": (-32602, 400, "INVALID_ARGUMENT"),
    "IDEMPOTENCY_CONFLICT": (-32602, 409, "ABORTED"),
    "ROUTE_NOT_FOUND": (-32601, 404, "NOT_FOUND"),
    "METHOD_NOT_ALLOWED": (-32600, 405, "UNIMPLEMENTED"),
    "UNSUPPORTED_MEDIA_TYPE": (-32005, 415, "INVALID_ARGUMENT"),
    "PAYLOAD_TOO_LARGE": (-32600, 413, "RESOURCE_EXHAUSTED"),
    "UNAUTHENTICATED": (-32000, 401, "UNAUTHENTICATED"),
    "PERMISSION_DENIED": (-32000, 403, "PERMISSION_DENIED"),
    "TOO_MANY_REQUESTS": (-32000, 429, "RESOURCE_EXHAUSTED"),
    "UNAVAILABLE": (-32000, 503, "UNAVAILABLE"),
    "AGENT_LOST": (-32000, 502, "UNKNOWN"),
}
OWN_REASONS = frozenset(
    {
        "IDEMPOTENCY_CONFLICT",
        "ROUTE_NOT_FOUND",
        "METHOD_NOT_ALLOWED",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "UNAUTHENTICATED",
        "PERMISSION_DENIED",
        "TOO_MANY_REQUESTS",
        "UNAVAILABLE",
        "AGENT_LOST",
    }
)
# Over JSON-RPC errors ride on HTTP 200, but for those about the HTTP request itself.
HTTP_REASONS = OWN_REASONS - {"IDEMPOTENCY_CONFLICT"}
# 0.3 ends at -32007.
V03_CODES = {-32008: -32004, -32009: -32004}

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"

V03_METHODS = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "ListTasks": "tasks/list",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
    "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
}
OPERATIONS = tuple(V03_METHODS)
STREAMING = ("SendStreamingMessage", "SubscribeToTask")
PUSH = OPERATIONS[6:10]

# Verb and path for REST; the ids are filled in from the parameters.
_ROUTES = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


class Refused(Exception):
    """An error of the gateway, whose shape the client has checked."""

    def __init__(self, reason: str, message: str, details: list[Json], answer: Answer) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.details = details
        self.answer = answer

    @property
    def metadata(self) -> dict[str, str]:
        found: dict[str, str] = self.details[0]["metadata"]
        return found

    @property
    def fields(self) -> list[str]:
        """The fields at fault."""
        return [
            violation["field"]
            for detail in self.details
            if detail["@type"] == BAD_REQUEST
            for violation in detail["fieldViolations"]
        ]


class Event(Struct, frozen=True, kw_only=True):
    kind: str
    value: Json
    # The sequence to resume after; None when the event has none.
    id: int | None
    raw: Json

    @property
    def state(self) -> str:
        """Of the task, as the event tells it; empty for what tells nothing of it."""
        return str(self.value.get("status", {}).get("state", ""))


def message(
    *content: str | Json,
    task: str = "",
    context: str = "",
    id: str = "message-1",
    **fields: Any,
) -> Json:
    """A message of the user; texts are scripts for the scripted agent."""
    parts = [{"text": item} if isinstance(item, str) else item for item in content]
    value: Json = {"messageId": id, "role": "ROLE_USER", "parts": parts} | fields
    if task:
        value["taskId"] = task
    if context:
        value["contextId"] = context
    return value


class Address(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "/a2a/jsonrpc"
    rest: str = "/a2a/rest"


class Client(ABC):
    name: ClassVar[str]
    version: ClassVar[Dialect]
    binding: ClassVar[Binding]
    shapes: ClassVar[Shapes]
    # False where answers are not as A2A wants them, because they repeat what a client got wrong, or
    # a preset keeps a habit of the original.
    checks_answers = True

    def __init__(
        self,
        http: Asgi,
        *,
        key: str,
        tenant: str = "",
        address: Address | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.http = http
        self.tenant = tenant
        self.address = address or Address()
        self.headers = {"a2a-version": self.version} | (headers or {})
        if key:
            self.headers["authorization"] = f"Bearer {key}"

    @abstractmethod
    def request(self, operation: str, params: Json) -> Http:
        """The HTTP request of an operation. `params` are those of 1.0."""

    @abstractmethod
    def body_of(self, answer: Answer) -> Any:
        """The result in the answer. Raises Refused, and AssertionError for a wrong shape."""

    @abstractmethod
    def unwrapped(self, data: Any) -> Any:
        """What is in an event's data."""

    def refusal_in(self, frames: bytes) -> Refused | None:
        """The error of a stream that is refused, where it is the one event of a stream."""
        return None

    async def call(
        self, operation: str, params: Json, *, headers: dict[str, str] | None = None
    ) -> Any:
        request = self.request(operation, params)
        request.headers |= headers or {}
        answer = await self.http.send(request)
        self.check(operation, request, answer)
        return self.result(operation, answer)

    def check(self, operation: str, request: Http, answer: Answer) -> None:
        """The answers of the gateway break no rule of A2A, and its own checks say so."""
        if not self.checks_answers:
            return
        body = answer.body
        direction: Direction = "response"
        if answer.headers.get("content-type") == "text/event-stream":
            # A stream that was refused is one event.
            body = body.removeprefix(b"data: ").partition(b"\n")[0]
            direction = "event"
        found = check(
            Sent(
                direction=direction,
                binding=self.binding,
                version=self.version,
                operation=operation,
                status=answer.status,
                headers=answer.headers,
                body=body,
            )
        )
        wrong = [each for each in found if each.severity != "note"]
        assert wrong == [], (operation, answer.body[:2000], wrong)

    def result(self, operation: str, answer: Answer) -> Any:
        body = self.body_of(answer)
        match operation:
            case "SendMessage":
                kind, value = self.sent(body)
                return {kind: value}
            case "GetTask" | "CancelTask":
                return self.shapes.task(body)
            case "ListTasks":
                assert set(body) == {"tasks", "nextPageToken", "pageSize", "totalSize"}
                return body | {"tasks": [self.shapes.task(task) for task in body["tasks"]]}
            case _:
                return body

    def sent(self, body: Json) -> tuple[str, Json]:
        return self.shapes.event(body)

    async def send(
        self,
        sent: Json | str,
        *,
        headers: dict[str, str] | None = None,
        metadata: Json | None = None,
        **configuration: Any,
    ) -> Json:
        params = self._send_params(sent, metadata, configuration)
        result: Json = await self.call("SendMessage", params, headers=headers)
        return result

    async def run(self, sent: Json | str, **options: Any) -> Json:
        """Send, and take the task."""
        task: Json = (await self.send(sent, **options))["task"]
        return task

    def stream(
        self,
        sent: Json | str,
        *,
        headers: dict[str, str] | None = None,
        metadata: Json | None = None,
        **configuration: Any,
    ) -> "Opening":
        params = self._send_params(sent, metadata, configuration)
        return self.open("SendStreamingMessage", params, headers=headers)

    def _send_params(self, sent: Json | str, metadata: Json | None, configuration: Json) -> Json:
        params: Json = {"message": message(sent) if isinstance(sent, str) else sent}
        if configuration:
            params["configuration"] = configuration
        if metadata is not None:
            params["metadata"] = metadata
        return params

    async def get(self, task_id: str, **params: Any) -> Json:
        task: Json = await self.call("GetTask", {"id": task_id} | params)
        return task

    async def list(self, **params: Any) -> Json:
        page: Json = await self.call("ListTasks", params)
        return page

    async def cancel(self, task_id: str) -> Json:
        task: Json = await self.call("CancelTask", {"id": task_id})
        return task

    def subscribe(self, task_id: str, *, headers: dict[str, str] | None = None) -> "Opening":
        return self.open("SubscribeToTask", {"id": task_id}, headers=headers)

    def open(
        self, operation: str, params: Json, *, headers: dict[str, str] | None = None
    ) -> "Opening":
        request = self.request(operation, params)
        request.headers |= headers or {}
        return Opening(self, operation, request)


class Opening:
    """A stream to enter with `async with`. Entering raises Refused when there is none."""

    def __init__(self, client: Client, operation: str, request: Http) -> None:
        self._client = client
        self._response = client.http.open(request)
        self._operation = operation
        self._is_resumed = "last-event-id" in {name.lower() for name in request.headers}

    async def __aenter__(self) -> "Stream":
        response = await self._response.__aenter__()
        if response.headers.get("content-type") != "text/event-stream":
            body = b"".join([chunk async for chunk in response.chunks()])
            await self._response.__aexit__(None, None, None)
            answer = Answer(status=response.status, headers=response.headers, body=body)
            raise AssertionError(f"neither stream nor error: {self._client.body_of(answer)}")
        assert response.status == 200
        # Something follows the head at once: an event, a comment, or the error of a refusal.
        first = await anext(response.chunks())
        refusal = self._client.refusal_in(first)
        if refusal is not None:
            await self._response.__aexit__(None, None, None)
            raise refusal
        checker = None
        if self._client.checks_answers:
            checker = StreamChecker(
                binding=self._client.binding,
                version=self._client.version,
                operation=self._operation,
                is_resumed=self._is_resumed,
            )
        return Stream(self._client, response, first, checker)

    async def __aexit__(self, *about: Any) -> None:
        await self._response.__aexit__(*about)


class Stream:
    def __init__(
        self,
        client: Client,
        response: Response,
        first: bytes = b"",
        checker: StreamChecker | None = None,
    ) -> None:
        """`first` is what has been read of the response."""
        self._client = client
        self._checker = checker
        self.response = response
        self._first = first
        # Frames as they came, comments and all.
        self.frames: list[bytes] = []
        self._events = self._read()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def next(self) -> Event:
        return await anext(self._events)

    async def rest(self) -> list[Event]:
        """All events until the gateway closes the stream."""
        return [event async for event in self]

    async def until(self, state: str) -> list[Event]:
        """All events up to the first that tells of this state."""
        events = []
        async for event in self:
            events.append(event)
            if event.state == state:
                return events
        raise AssertionError(f"the stream closed before {state}: {events}")

    def leave(self) -> None:
        self.response.leave()

    async def _read(self) -> AsyncIterator[Event]:
        buffer = b""
        async for chunk in self._chunks():
            *frames, buffer = (buffer + chunk).split(b"\n\n")
            for frame in frames:
                self.frames.append(frame)
                event = self._event(frame)
                if event is not None:
                    yield event
        assert buffer == b""

    async def _chunks(self) -> AsyncIterator[bytes]:
        if self._first:
            yield self._first
        async for chunk in self.response.chunks():
            yield chunk

    def _event(self, frame: bytes) -> Event | None:
        fields = dict(
            line.split(b": ", 1) for line in frame.split(b"\n") if not line.startswith(b":")
        )
        if self._checker is not None and b"data" in fields:
            found = self._checker.feed(
                fields[b"data"],
                event_id=fields.get(b"id", b"").decode(),
                event=fields.get(b"event", b"").decode(),
            )
            wrong = [each for each in found if each.severity != "note"]
            assert wrong == [], (fields, wrong)
        if b"event" in fields or b"data" not in fields:
            return None
        raw = self._client.unwrapped(msgspec.json.decode(fields[b"data"]))
        kind, value = self._client.shapes.event(raw)
        id = int(fields[b"id"]) if b"id" in fields else None
        return Event(kind=kind, value=value, id=id, raw=raw)


class JsonRpcClient(Client):
    binding = "jsonrpc"
    # What the request is known by; the answer must have the same.
    request_id: str | int | None = "request-1"

    @abstractmethod
    def method(self, operation: str) -> str: ...

    def params(self, operation: str, params: Json) -> Json:
        sends = operation in ("SendMessage", "SendStreamingMessage")
        return self.shapes.send(params) if sends else params

    def request(self, operation: str, params: Json) -> Http:
        body = {
            "jsonrpc": "2.0",
            "id": self.request_id,
            "method": self.method(operation),
            "params": self.params(operation, params),
        }
        return Http(
            path=self.address.jsonrpc,
            headers={"content-type": "application/json"} | self.headers,
            body=msgspec.json.encode(body),
        )

    def body_of(self, answer: Answer) -> Any:
        assert answer.headers["content-type"] == "application/json"
        return self._unwrap(answer.json(), answer)

    def unwrapped(self, data: Any) -> Any:
        assert set(data) == {"jsonrpc", "id", "result"}
        return self._unwrap(data, Answer(status=200, headers={}, body=b""))

    def _unwrap(self, body: Any, answer: Answer) -> Any:
        assert body["jsonrpc"] == "2.0"
        if "error" in body:
            assert set(body) == {"jsonrpc", "id", "error"}
            # Null where the gateway cannot know it.
            assert body["id"] in (self.request_id, None)
            raise self._refused(body["error"], answer)
        assert set(body) == {"jsonrpc", "id", "result"}
        assert body["id"] == self.request_id
        assert answer.status == 200
        return body["result"]

    def _refused(self, error: Json, answer: Answer) -> Refused:
        assert set(error) == {"code", "message", "data"}
        details = checked_details(error["data"])
        reason = details[0]["reason"]
        code, status, _ = ERRORS[reason]
        assert error["code"] == (V03_CODES.get(code, code) if self.version == "0.3" else code)
        assert answer.status == (status if reason in HTTP_REASONS else 200)
        return Refused(reason, error["message"], details, answer)


class JsonRpc10(JsonRpcClient):
    name = "jsonrpc-1.0"
    version = "1.0"
    shapes = V1()

    def method(self, operation: str) -> str:
        return operation

    def params(self, operation: str, params: Json) -> Json:
        return ({"tenant": self.tenant} if self.tenant else {}) | params


class JsonRpc03(JsonRpcClient):
    name = "jsonrpc-0.3"
    version = "0.3"
    shapes = V03JsonRpc()

    def __init__(self, http: Asgi, **options: Any) -> None:
        super().__init__(http, **options)
        # 0.3 does not know the header.
        del self.headers["a2a-version"]

    def method(self, operation: str) -> str:
        return V03_METHODS[operation]

    def body_of(self, answer: Answer) -> Any:
        # 0.3, 3.3.1: what is asked for as a stream is answered by one, an error included.
        if answer.headers["content-type"] == "text/event-stream":
            refusal = self.refusal_in(answer.body)
            assert answer.status == 200
            assert refusal is not None, "a stream that is not refused is opened, not called"
            raise refusal
        return super().body_of(answer)

    def refusal_in(self, frames: bytes) -> Refused | None:
        if not frames.startswith(b"data: ") or b',"error":{' not in frames:
            return None
        event, end = frames.removeprefix(b"data: ").split(b"\n\n")
        assert end == b""
        answer = Answer(status=200, headers={}, body=event)
        try:
            self._unwrap(answer.json(), answer)
        except Refused as refusal:
            return refusal
        return None

    def params(self, operation: str, params: Json) -> Json:
        params = dict(params)
        if "status" in params:
            params["status"] = self.shapes.state(params["status"])
        match operation:
            case "CreateTaskPushNotificationConfig":
                return {"taskId": params.pop("taskId"), "pushNotificationConfig": params}
            case "GetTaskPushNotificationConfig" | "DeleteTaskPushNotificationConfig":
                return {"id": params["taskId"], "pushNotificationConfigId": params["id"]}
            case "ListTaskPushNotificationConfigs":
                return {"id": params["taskId"]}
            case _:
                return super().params(operation, params)


class RestClient(Client):
    binding = "rest"
    media_type = "application/a2a+json"
    prefix = ""

    def request(self, operation: str, params: Json) -> Http:
        params = dict(params)
        verb, template = self.route(operation)
        tenant = f"/{quote(self.tenant, safe='')}" if self.tenant else ""
        ids = {
            name: quote(str(params.pop(name)), safe="")
            for name in ("id", "taskId")
            if f"{{{name}}}" in template
        }
        path = self.address.rest + self.prefix + tenant + template.format(**ids)
        if verb != "POST":
            return Http(method=verb, path=path, query=self._query(params), headers={**self.headers})
        headers = {"content-type": self.media_type} | self.headers
        return Http(path=path, headers=headers, body=self._body(operation, params))

    def route(self, operation: str) -> tuple[str, str]:
        return _ROUTES[operation]

    def _query(self, params: Json) -> str:
        if "status" in params:
            params["status"] = self.shapes.state(params["status"])
        return urlencode(
            {
                name: str(value).lower() if isinstance(value, bool) else value
                for name, value in params.items()
            }
        )

    def _body(self, operation: str, params: Json) -> bytes:
        if operation in ("SendMessage", "SendStreamingMessage"):
            params = self.shapes.send(params)
        return msgspec.json.encode(params) if params else b""

    def body_of(self, answer: Answer) -> Any:
        assert answer.headers["content-type"] == self.media_type
        body = answer.json()
        if answer.status == 200:
            return body
        raise self._refused(body, answer)

    def _refused(self, body: Json, answer: Answer) -> Refused:
        error = body["error"]
        assert set(error) == {"code", "status", "message", "details"}
        details = checked_details(error["details"])
        reason = details[0]["reason"]
        _, status, grpc = ERRORS[reason]
        assert (answer.status, error["code"], error["status"]) == (status, status, grpc)
        return Refused(reason, error["message"], details, answer)

    def unwrapped(self, data: Any) -> Any:
        return data


class Rest10(RestClient):
    name = "rest-1.0"
    version = "1.0"
    shapes = V1()

    def __init__(self, http: Asgi, **options: Any) -> None:
        super().__init__(http, **options)
        # The gateway answers in plain JSON unless a client asks for the type of 1.0.
        self.headers["accept"] = self.media_type

    def _refused(self, body: Json, answer: Answer) -> Refused:
        assert set(body) == {"error"}
        return super()._refused(body, answer)


class Rest03(RestClient):
    name = "rest-0.3"
    version = "0.3"
    shapes = V03Rest()
    media_type = "application/json"
    prefix = "/v1"

    def __init__(self, http: Asgi, **options: Any) -> None:
        super().__init__(http, **options)
        del self.headers["a2a-version"]

    def route(self, operation: str) -> tuple[str, str]:
        if operation == "GetExtendedAgentCard":
            return "GET", "/card"
        return super().route(operation)

    def _body(self, operation: str, params: Json) -> bytes:
        if operation == "CreateTaskPushNotificationConfig":
            params = {"config": {"pushNotificationConfig": params}}
        return super()._body(operation, params)

    def _refused(self, body: Json, answer: Answer) -> Refused:
        assert set(body) == {"type", "code", "message", "error"}
        assert body["message"] == body["error"]["message"]
        refused = super()._refused(body, answer)
        code = ERRORS[refused.reason][0]
        assert body["code"] == V03_CODES.get(code, code)
        return refused


def checked_details(details: Any) -> list[Json]:
    """`google.rpc.ErrorInfo` comes first, and every detail says its type."""
    assert isinstance(details, list)
    info = details[0]
    assert set(info) == {"@type", "reason", "domain", "metadata"}
    assert info["@type"] == ERROR_INFO
    own = info["reason"] in OWN_REASONS
    assert info["domain"] == ("trunkline" if own else "a2a-protocol.org")
    assert all(isinstance(value, str) for value in info["metadata"].values())
    assert all("@type" in detail for detail in details)
    return details


CLIENTS: dict[str, type[Client]] = {
    client.name: client for client in (JsonRpc10, Rest10, JsonRpc03, Rest03)
}
