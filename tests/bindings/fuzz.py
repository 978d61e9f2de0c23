"""Good requests made bad: the same for the same seed."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.bindings.asgi import Http
from tests.bindings.clients import Client, message
from tests.bindings.shapes import Json

T = TypeVar("T")

# Nothing here is a command of the scripted agent, so that no mutation makes it wait.
STRINGS = [
    "",
    " ",
    "hello",
    "\0",
    "\n",
    "é",
    "🌍",
    "\u202e",
    "\ud800",
    "x" * 300,
    "x" * 5000,
    "null",
    "0",
    "-1",
    "1e9",
    "true",
    "..",
    "/",
    "%00",
    "%zz",
    "' or 1=1 --",
    "{}",
    "2.0",
    "1.0",
    "0.3",
    "../../etc/passwd",
    "2026-01-31T23:59:59Z",
]
ENUMS = [
    "ROLE_USER",
    "ROLE_AGENT",
    "ROLE_UNSPECIFIED",
    "user",
    "agent",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_HAPPY",
    "completed",
    "working",
    "text",
    "file",
    "data",
    "message",
    "task",
]
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2,
    50,
    101,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    10**400,
    -(10**400),
    0.5,
    1e308,
    -0.0,
    float("inf"),
    float("nan"),
]
NAMES = [
    "id",
    "message",
    "messageId",
    "message_id",
    "role",
    "parts",
    "content",
    "text",
    "raw",
    "url",
    "data",
    "file",
    "kind",
    "metadata",
    "tenant",
    "taskId",
    "contextId",
    "configuration",
    "historyLength",
    "history_length",
    "returnImmediately",
    "blocking",
    "params",
    "method",
    "jsonrpc",
    "pageSize",
    "pageToken",
    "status",
    "__proto__",
    "",
    "@type",
    "constructor",
]
HEADERS = [
    "content-type",
    "content-length",
    "accept",
    "a2a-version",
    "a2a-extensions",
    "x-a2a-extensions",
    "idempotency-key",
    "last-event-id",
    "if-none-match",
    "host",
    "transfer-encoding",
    "expect",
    "x-api-key",
    "cookie",
    "range",
    "accept-encoding",
    "traceparent",
]
HEADER_VALUES = [
    "",
    " ",
    "application/json",
    "application/a2a+json",
    "application/json; charset=utf-16",
    "text/event-stream",
    "*/*",
    "1.0",
    "0.3",
    "1.0.1",
    "2.0",
    "1",
    "0",
    "-1",
    "99999999999999999999",
    "key-1",
    "key-2",
    "k" * 300,
    "https://ext.example/a, https://ext.example/b",
    ",,,",
    "\x7f\xff\xe9",
    "chunked",
    "100-continue",
    "gzip",
    '"etag"',
    "127.0.0.1",
    "evil.example",
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "BREW"]
PATH_PIECES = [
    "/",
    "//",
    "/.",
    "/..",
    "/tasks",
    "/tasks/",
    "/v1",
    "/acme",
    "/message:send",
    "/message:stream",
    ":cancel",
    ":subscribe",
    ":",
    "/pushNotificationConfigs",
    "/pushNotificationConfigs/x",
    "/extendedAgentCard",
    "/card",
    "%2F",
    "%3Acancel",
    "%00",
    "%FF",
    "%",
    "%zz",
    ";a=b",
    "é",
    "x" * 500,
]
QUERIES = [
    "pageSize=1",
    "pageSize=-1",
    "pageSize=x",
    "page_size=3",
    "pageToken=zzzz",
    "historyLength=0",
    "historyLength=99999999999",
    "status=TASK_STATE_COMPLETED",
    "status=",
    "includeArtifacts=true",
    "includeArtifacts=TRUE",
    "statusTimestampAfter=now",
    "statusTimestampAfter=2025-06-15T15:06:40+02:00",
    "contextId=%FF%FE",
    "contextId=%",
    "tenant=acme",
    "A2A-Version=1.0",
    "A2A-Version=0.3",
    "A2A-Version=7",
    "&&&",
    "=",
    "a=b=c",
    "é=ü",
    "\x00",
]


def good_requests(client: Client, task_ids: list[str]) -> list[Http]:
    """One of each kind, among them some about tasks that exist."""
    rich = message(
        "hello",
        {"data": {"a": [1, {"b": None}]}},
        {"url": "https://files.example/a", "mediaType": "text/plain", "filename": "a"},
        context="ours",
        metadata={"k": 1},
        extensions=["https://ext.example/a"],
        referenceTaskIds=["made-up"],
    )
    requests: list[tuple[str, Json]] = [
        ("SendMessage", {"message": message("hello")}),
        ("SendMessage", {"message": rich, "metadata": {"m": True}}),
        (
            "SendMessage",
            {
                "message": message("hello"),
                "configuration": {
                    "historyLength": 1,
                    "returnImmediately": True,
                    "acceptedOutputModes": ["text/plain"],
                },
            },
        ),
        ("SendStreamingMessage", {"message": message("hello")}),
        ("SendStreamingMessage", {"message": rich, "configuration": {"historyLength": 0}}),
        ("ListTasks", {}),
        ("ListTasks", {"pageSize": 2, "historyLength": 1, "includeArtifacts": True}),
        ("ListTasks", {"status": "TASK_STATE_COMPLETED", "contextId": "ours"}),
        ("GetExtendedAgentCard", {}),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://hook.example"}),
        ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
        ("ListTaskPushNotificationConfigs", {"taskId": "t"}),
        ("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
    ]
    for task_id in task_ids:
        requests += [
            ("GetTask", {"id": task_id, "historyLength": 1}),
            ("CancelTask", {"id": task_id}),
            ("SubscribeToTask", {"id": task_id}),
            ("SendMessage", {"message": message("hello", task=task_id)}),
        ]
    return [client.request(operation, params) for operation, params in requests]


class Fuzzer:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Sequence[T]) -> T:
        return self._random.choice(items)

    def mutated(self, good: Http) -> Http:
        request = Http(
            method=good.method,
            path=good.path,
            query=good.query,
            headers=dict(good.headers),
            body=good.body,
        )
        for _ in range(self._random.choice([1, 1, 1, 2, 3])):
            mutate = self._random.choices(
                [self._tree, self._bytes, self._headers, self._path, self._query, self._method],
                weights=[60, 15, 10, 7, 6, 2],
            )[0]
            mutate(request)
        return request

    def _value(self, depth: int = 0) -> Any:
        kind = self._random.random()
        if kind < 0.3:
            return self.pick(STRINGS)
        if kind < 0.5:
            return self.pick(NUMBERS)
        if kind < 0.65:
            return self.pick([None, True, False, [], {}])
        if kind < 0.75:
            return self.pick(ENUMS)
        if kind < 0.8:
            return self._nested()
        if depth > 3:
            return None
        if kind < 0.9:
            return [self._value(depth + 1) for _ in range(self._random.randrange(4))]
        return {self.pick(NAMES): self._value(depth + 1) for _ in range(self._random.randrange(4))}

    def _nested(self) -> Any:
        value: Any = 1
        for _ in range(self.pick([3, 30, 60, 70, 200])):
            value = [value] if self._random.random() < 0.5 else {"a": value}
        return value

    def _tree(self, request: Http) -> None:
        try:
            tree = json.loads(_whole(request.body))
        except (ValueError, RecursionError):
            return
        nodes: list[tuple[Any, Any]] = []
        _collect(tree, nodes)
        # The members at the top are few and soon refused; what is below goes further.
        below = [node for node in nodes if node[0] is not tree]
        if below and self._random.random() < 0.7:
            nodes = below
        if nodes:
            for _ in range(self.pick([1, 1, 2, 4])):
                self._edit(*self.pick(nodes))
        else:
            tree = self._value()
        # Half surrogates, infinities and all: as text they are somebody's mistake.
        request.body = json.dumps(tree).encode("utf-8", "replace")

    def _edit(self, parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            self._edit_member(parent, key)
        elif key < len(parent):
            edit = self._random.random()
            if edit < 0.3:
                parent[key] = self._value()
            elif edit < 0.6:
                parent.append(parent[key])
            else:
                del parent[key]

    def _edit_member(self, parent: Json, key: str) -> None:
        edit = self._random.random()
        if key not in parent:
            parent[self.pick(NAMES)] = self._value()
        elif edit < 0.2:
            del parent[key]
        elif edit < 0.55:
            parent[key] = self._value()
        elif edit < 0.65:
            parent[self.pick(NAMES)] = parent[key]
        elif edit < 0.75:
            parent[self.pick(NAMES)] = self._value()
        elif edit < 0.82:
            parent[re.sub(r"([A-Z])", lambda hump: "_" + hump[1].lower(), key)] = self._value()
        elif edit < 0.9:
            parent[key] = [parent[key]]
        else:
            parent[key] = self.pick(ENUMS)

    def _bytes(self, request: Http) -> None:
        body = _whole(request.body)
        at = self._random.randrange(len(body) + 1)
        end = min(len(body), at + self._random.randrange(1, 20))
        edits: list[Callable[[], bytes]] = [
            lambda: body[:at],
            lambda: body[at:],
            lambda: body[:at] + body[end:],
            lambda: body[:at] + self._random.randbytes(end - at + 1) + body[at:],
            lambda: body[:at] + self._random.randbytes(end - at) + body[end:],
            lambda: body[:end] + body[at:],
            lambda: body + body,
            lambda: b"\xef\xbb\xbf" + body,
            lambda: b"\n \t" * 200 + body,
            lambda: b"[%b]" % body,
            lambda: re.sub(rb"\d+", b"9" * 500, body, count=1),
            lambda: self._random.randbytes(self._random.randrange(200)),
            lambda: body.replace(b'"', b"'", self._random.randrange(4)),
            lambda: body.replace(b",", b",,", 1),
            lambda: body.replace(b"hello", b"\\ud83c\\u0000\\udf0d"),
        ]
        changed = self.pick(edits)()
        # In pieces, too.
        cut = self._random.randrange(len(changed) + 1)
        request.body = changed if self._random.random() < 0.8 else [changed[:cut], changed[cut:]]

    def _headers(self, request: Http) -> None:
        edit = self._random.random()
        if edit < 0.2 and request.headers:
            name = self.pick(sorted(request.headers))
            # Without a key everything is a 401, which is soon said.
            if name != "authorization":
                del request.headers[name]
        else:
            request.headers[self.pick(HEADERS)] = self.pick(HEADER_VALUES)

    def _path(self, request: Http) -> None:
        at = self._random.randrange(len(request.path) + 1)
        edit = self._random.random()
        if edit < 0.4:
            request.path += self.pick(PATH_PIECES)
        elif edit < 0.7:
            request.path = request.path[:at] + self.pick(PATH_PIECES) + request.path[at:]
        elif edit < 0.85:
            request.path = "/" + request.path[at:].lstrip("/")
        else:
            request.path = request.path[: max(at, 1)]

    def _query(self, request: Http) -> None:
        pieces = [self.pick(QUERIES) for _ in range(self._random.randrange(1, 4))]
        request.query = "&".join(pieces)

    def _method(self, request: Http) -> None:
        request.method = self.pick(METHODS)


def _whole(body: bytes | list[bytes]) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)


def _collect(tree: Any, nodes: list[tuple[Any, Any]]) -> None:
    if isinstance(tree, dict):
        for key, value in tree.items():
            nodes.append((tree, key))
            _collect(value, nodes)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            nodes.append((tree, index))
            _collect(value, nodes)
