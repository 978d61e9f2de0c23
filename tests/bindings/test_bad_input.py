"""Requests that are wrong. Each gets the error of its binding and version, nothing is
stored, the agent sees nothing, and the next good request is served."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.cases import JSONRPC, REST, V10, in_memory, over, refused
from tests.bindings.clients import Client, Refused, message
from tests.bindings.shapes import Json
from tests.bindings.world import World, open_world

database = in_memory

# What a stack trace, a library or a path of ours would bring.
LEAKS = (b"Traceback", b"msgspec", b"Expected `", b".py", b"site-packages", b"trunkline/", b"0x7f")


class Absent:
    """Stands for a member that is not there; a class, whose name is the same in every process."""


ABSENT: Any = Absent


def check_no_leak(answer: Answer) -> None:
    assert not [leak for leak in LEAKS if leak in answer.body], answer.body


@pytest.fixture
async def client(world: World, dialect: str) -> AsyncIterator[Client]:
    client = world.client(dialect)
    yield client
    assert (await client.list())["totalSize"] == 0
    assert not world.agent.turns
    assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def refusal(client: Client, request: Http, reason: str) -> Refused:
    answer = await client.http.send(request)
    check_no_leak(answer)
    with refused(reason) as caught:
        client.body_of(answer)
    return caught.value


def sending(client: Client, operation: str = "SendMessage") -> Http:
    return client.request(operation, {"message": message("say hi")})


def edited(client: Client, edit: Callable[[Json], Any], operation: str = "SendMessage") -> Http:
    """A good request whose parameters are changed as they are on the wire."""
    request = sending(client, operation)
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body)
    params = body["params"] if client.binding == "jsonrpc" else body
    edit(params)
    request.body = msgspec.json.encode(body)
    return request


def put(params: Json, path: str, value: Any) -> None:
    *steps, last = path.split(".")
    at: Any = params
    for step in steps:
        at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
    if value is ABSENT:
        del at[last]
    else:
        at[last] = value


# Path, value, and the field to blame when it is not the path. `parts` is `content` over
# REST in 0.3.
WRONG_FIELDS: list[tuple[str, Any, str]] = [
    ("message", ABSENT, ""),
    ("message", None, ""),
    ("message", "hello", ""),
    ("message", 7, ""),
    ("message", [], ""),
    ("message", {}, "message.messageId"),
    ("message.messageId", ABSENT, ""),
    ("message.messageId", None, ""),
    ("message.messageId", "", ""),
    ("message.messageId", 7, ""),
    ("message.messageId", "m" * 257, ""),
    ("message.messageId", "m\0", ""),
    ("message.contextId", 7, ""),
    ("message.contextId", "c" * 257, ""),
    ("message.contextId", "c\0", ""),
    ("message.taskId", {}, ""),
    ("message.taskId", "t" * 257, ""),
    ("message.taskId", "t\0", ""),
    ("message.role", ABSENT, ""),
    ("message.role", "", ""),
    ("message.role", "ROLE_UNSPECIFIED", ""),
    ("message.role", "boss", ""),
    ("message.role", [], ""),
    ("message.parts", ABSENT, ""),
    ("message.parts", [], ""),
    ("message.parts", "hello", ""),
    ("message.parts", {}, ""),
    ("message.parts", [None], "message.parts[0]"),
    ("message.parts", ["hello"], "message.parts[0]"),
    ("message.parts", [{}], "message.parts[0]"),
    ("message.parts", [{"metadata": {}}], "message.parts[0]"),
    ("message.parts.0.text", 7, "message.parts[0].text"),
    ("message.parts.0.text", {"a": 1}, "message.parts[0].text"),
    ("message.parts", [{"text": "a", "data": {"data": {}}}], "message.parts[0]"),
    ("message.parts.0.metadata", "x", "message.parts[0].metadata"),
    ("message.metadata", [1], ""),
    ("message.extensions", "x", ""),
    ("message.extensions", [1], "message.extensions[0]"),
    ("message.referenceTaskIds", [None], "message.referenceTaskIds[0]"),
    ("metadata", "x", ""),
    ("configuration", [], ""),
    ("configuration", "x", ""),
    ("configuration.historyLength", "many", ""),
    ("configuration.historyLength", 1.5, ""),
    ("configuration.historyLength", -1, ""),
    ("configuration.historyLength", 2**31, ""),
    ("configuration.historyLength", -(2**40), ""),
    ("configuration.historyLength", 2**63, ""),
    ("configuration.historyLength", True, ""),
    ("configuration.acceptedOutputModes", "text/plain", ""),
    ("configuration.acceptedOutputModes", [1], "configuration.acceptedOutputModes[0]"),
]


def _name(case: tuple[str, Any, str]) -> str:
    path, value, _ = case
    return f"{path}={'absent' if value is ABSENT else str(value)[:20]}"


@pytest.mark.parametrize("case", WRONG_FIELDS, ids=_name)
async def test_a_wrong_field_is_named(client: Client, case: tuple[str, Any, str]) -> None:
    path, value, blamed = case
    if client.name == "rest-0.3":
        path = path.replace("parts", "content")
        blamed = blamed.replace("parts", "content")
    # In 0.3 the content of a message has two names.
    wanted = (blamed or path).replace("content", "parts")
    for operation in ("SendMessage", "SendStreamingMessage"):
        request = edited(client, lambda params: put(params, path, value), operation)
        error = await refusal(client, request, "INVALID_PARAMS")
        assert [field.replace("content", "parts") for field in error.fields] == [wanted]


@over(*V10)
@pytest.mark.parametrize(
    ("part", "blamed"),
    [
        ({"text": "a", "raw": ""}, ""),
        ({"text": "a", "url": "https://a.example"}, ""),
        ({"text": "a", "data": None}, ""),
        ({"raw": "AAAA", "data": 1}, ""),
        ({"raw": "!!"}, ".raw"),
        ({"raw": 7}, ".raw"),
        ({"url": 7}, ".url"),
        ({"text": "a", "mediaType": 7}, ".mediaType"),
        ({"text": "a", "filename": []}, ".filename"),
    ],
    ids=str,
)
async def test_a_part_holds_one_content_of_the_right_type(
    client: Client, part: Json, blamed: str
) -> None:
    request = edited(client, lambda params: put(params, "message.parts", [part]))
    error = await refusal(client, request, "INVALID_PARAMS")
    assert error.fields == [f"message.parts[0]{blamed}"]


@over("jsonrpc-0.3")
@pytest.mark.parametrize(
    "part",
    [
        {"kind": "text"},
        {"kind": "file"},
        {"kind": "file", "file": {}},
        {"kind": "file", "file": {"bytes": "AAAA", "uri": "https://a.example"}},
        {"kind": "file", "file": {"bytes": "!!"}},
        {"kind": "data", "data": [1]},
        {"kind": "data", "data": 1},
        {"kind": "image", "text": "a"},
        {"text": "a", "file": {"bytes": "AAAA"}},
        {"kind": 7, "text": "a"},
    ],
    ids=str,
)
async def test_a_part_of_0_3_holds_one_content_of_the_right_type(
    client: Client, part: Json
) -> None:
    request = edited(client, lambda params: put(params, "message.parts", [part]))
    error = await refusal(client, request, "INVALID_PARAMS")
    assert error.fields[0].startswith("message.parts[0]")


@over(*V10)
async def test_a_flag_that_is_no_boolean_is_named(client: Client) -> None:
    path = "configuration.returnImmediately"
    wrong: list[Any] = ["yes", 1, [], {}]
    for value in wrong:
        request = edited(client, partial(put, path=path, value=value))
        assert (await refusal(client, request, "INVALID_PARAMS")).fields == [path]


BROKEN_JSON = [
    b"",
    b" ",
    b"{",
    b"}",
    b'{"a"}',
    b'{"a":1,}',
    b"{'a':1}",
    b"[1,2",
    b"nul",
    b'"open',
    b"{}{}",
    b"NaN",
    b"\x00",
    b'{"a":"\x01"}',
    b'{"a":"\\x"}',
    b'{"a":"\\ud800"}',
    b"\xef\xbb\xbf{}",
    b'{"a":"\xff\xfe"}',
    b"\xc3\x28",
    b'{"a":01}',
    b"<xml/>",
    "{\u201ca\u201d:1}".encode(),
]


@pytest.mark.parametrize("body", BROKEN_JSON, ids=repr)
async def test_what_is_no_json_is_a_parse_error(client: Client, body: bytes) -> None:
    request = sending(client)
    request.body = body
    error = await refusal(client, request, "PARSE_ERROR")
    if client.binding == "jsonrpc":
        # No id is known, so JSON-RPC says null.
        assert error.answer.json()["id"] is None


async def test_a_body_that_was_cut_is_a_parse_error(client: Client) -> None:
    request = sending(client)
    whole = request.body
    assert isinstance(whole, bytes)
    for end in range(0, len(whole), 7):
        request.body = whole[:end]
        await refusal(client, request, "PARSE_ERROR")


@over(*JSONRPC)
@pytest.mark.parametrize("body", [b"[]", b"[{}]", b"1", b'"text"', b"null", b"true", b"{}"])
async def test_json_that_is_no_request_is_invalid(client: Client, body: bytes) -> None:
    request = sending(client)
    request.body = body
    await refusal(client, request, "INVALID_REQUEST")


@over(*REST)
@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"true", b"{}"])
async def test_json_that_is_no_message_is_invalid(client: Client, body: bytes) -> None:
    request = sending(client)
    request.body = body
    await refusal(client, request, "INVALID_PARAMS")


@over(*JSONRPC)
async def test_batches_are_refused(client: Client) -> None:
    request = sending(client)
    assert isinstance(request.body, bytes)
    request.body = b"[%b,%b]" % (request.body, request.body)
    error = await refusal(client, request, "INVALID_REQUEST")
    assert error.answer.json()["id"] is None


@over(*JSONRPC)
async def test_notifications_are_refused(client: Client) -> None:
    request = sending(client)
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body)
    del body["id"]
    request.body = msgspec.json.encode(body)
    error = await refusal(client, request, "INVALID_REQUEST")
    assert error.answer.json()["id"] is None


@over(*JSONRPC)
@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("jsonrpc", "1.0", "INVALID_REQUEST"),
        ("jsonrpc", 2.0, "INVALID_REQUEST"),
        ("jsonrpc", ABSENT, "INVALID_REQUEST"),
        ("method", ABSENT, "INVALID_REQUEST"),
        ("method", 7, "INVALID_REQUEST"),
        ("method", None, "INVALID_REQUEST"),
        ("method", "rpc.discover", "METHOD_NOT_FOUND"),
        ("id", 1.5, "INVALID_REQUEST"),
        ("id", True, "INVALID_REQUEST"),
        ("id", {}, "INVALID_REQUEST"),
        ("id", ["request-1"], "INVALID_REQUEST"),
        ("params", [], "INVALID_PARAMS"),
        ("params", "text", "INVALID_PARAMS"),
        ("params", 7, "INVALID_PARAMS"),
        ("params", None, "INVALID_PARAMS"),
        ("params", ABSENT, "INVALID_PARAMS"),
    ],
    ids=str,
)
async def test_a_wrong_member_of_the_envelope_is_refused(
    client: Client, member: str, value: Any, reason: str
) -> None:
    request = sending(client)
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body)
    put(body, member, value)
    request.body = msgspec.json.encode(body)
    error = await refusal(client, request, reason)
    assert error.answer.json()["id"] == (None if member == "id" else "request-1")


async def test_numbers_beyond_all_bounds_are_refused(client: Client) -> None:
    for number in (b"1e999", b"-1e999", b"9" * 400, b"-" + b"9" * 5000):
        request = edited(client, lambda params: put(params, "configuration.historyLength", 7))
        assert isinstance(request.body, bytes)
        request.body = request.body.replace(b'"historyLength":7', b'"historyLength":%b' % number)
        answer = await client.http.send(request)
        check_no_leak(answer)
        with pytest.raises(Refused) as caught:
            client.body_of(answer)
        assert caught.value.reason in ("INVALID_PARAMS", "INVALID_REQUEST")


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
@pytest.mark.parametrize("depth", [65, 1000, 100_000])
async def test_deep_nesting_is_refused(
    client: Client, brackets: tuple[bytes, bytes], depth: int
) -> None:
    opening, closing = brackets
    request = edited(client, lambda params: put(params, "metadata", {"deep": "@"}))
    assert isinstance(request.body, bytes)
    deep = opening * depth + b"1" + closing * depth
    request.body = request.body.replace(b'"@"', deep)
    await refusal(client, request, "INVALID_REQUEST")
    # Without its end it must not be worse.
    request.body = opening * depth
    await refusal(client, request, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "text/json", "application/xml", "multipart/form-data", "application/*"],
)
async def test_another_content_type_is_refused(client: Client, kind: str) -> None:
    request = sending(client)
    request.headers["content-type"] = kind
    answer = await client.http.send(request)
    assert answer.status == 415
    check_no_leak(answer)


async def test_a_body_without_a_content_type_is_refused(client: Client) -> None:
    request = sending(client)
    del request.headers["content-type"]
    assert (await client.http.send(request)).status == 415


@pytest.fixture
async def small(dialect: str) -> AsyncIterator[Client]:
    async with open_world(server={"max_body_bytes": 2048}) as world:
        client = world.client(dialect)
        yield client
        assert (await client.list())["totalSize"] == 0
        assert (await client.run("say hi"))["id"]


async def test_an_announced_body_that_is_too_large_is_not_read(small: Client) -> None:
    request = sending(small)
    request.headers["content-length"] = "2049"
    # If it were read, this would be a parse error.
    request.body = b"{"
    await refusal(small, request, "PAYLOAD_TOO_LARGE")


async def test_a_body_in_pieces_that_grows_too_large_is_refused(small: Client) -> None:
    request = sending(small)
    request.body = [b" " * 512] * 5
    await refusal(small, request, "PAYLOAD_TOO_LARGE")


async def test_a_body_that_is_larger_than_announced_is_refused(small: Client) -> None:
    request = sending(small)
    request.headers["content-length"] = "10"
    request.body = b" " * 2049
    await refusal(small, request, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("length", ["many", "-1", "1e9", "²"])
async def test_a_length_that_is_none_changes_nothing(small: Client, length: str) -> None:
    request = small.request("ListTasks", {})
    request.headers["content-length"] = length
    assert small.result("ListTasks", await small.http.send(request))["totalSize"] == 0


async def test_a_body_of_the_largest_size_is_taken(dialect: str) -> None:
    async with open_world(server={"max_body_bytes": 2048}) as world:
        client = world.client(dialect)
        request = sending(client)
        assert isinstance(request.body, bytes)
        request.body += b" " * (2048 - len(request.body))
        assert "task" in client.result("SendMessage", await client.http.send(request))


@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
async def test_a_huge_task_id_is_unknown_and_not_repeated(client: Client, operation: str) -> None:
    request = client.request(operation, {"id": "x" * 100_000})
    error = await refusal(client, request, "TASK_NOT_FOUND")
    assert len(error.answer.body) < 2000


@over(*JSONRPC)
@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("id", [ABSENT, None, "", 7, [], {}], ids=str)
async def test_a_task_id_that_is_none_is_refused(client: Client, operation: str, id: Any) -> None:
    params = {} if id is ABSENT else {"id": id}
    error = await refusal(client, client.request(operation, params), "INVALID_PARAMS")
    assert error.fields == ["id"]


@over(*REST)
@pytest.mark.parametrize(
    "query",
    [
        "historyLength=x",
        "historyLength=1.5",
        "historyLength=-1",
        "historyLength=99999999999999999999",
        "historyLength=",
        "historyLength=1&historyLength=2",
        "historyLength=%FF",
        "historyLength=１",
    ],
)
async def test_a_wrong_query_is_named(client: Client, query: str) -> None:
    request = client.request("GetTask", {"id": "made-up"})
    request.query = query
    error = await refusal(client, request, "INVALID_PARAMS")
    assert error.fields[0] in ("historyLength", "query")


@pytest.mark.parametrize("id", ["x", "-1", "1.5", "9" * 19, "0x1", "１", "1,2"])
async def test_a_bad_last_event_id_is_refused(client: Client, id: str) -> None:
    for operation in ("SubscribeToTask", "SendStreamingMessage"):
        params: Json = {"message": message("say hi")}
        if operation == "SubscribeToTask":
            params = {"id": "made-up"}
        request = client.request(operation, params)
        request.headers["last-event-id"] = id.encode().decode("latin-1")
        await refusal(client, request, "INVALID_REQUEST")


async def test_an_over_long_idempotency_key_is_refused(client: Client) -> None:
    request = sending(client)
    request.headers["idempotency-key"] = "k" * 256
    await refusal(client, request, "INVALID_REQUEST")


async def test_a_page_token_of_any_kind_is_refused_and_not_repeated(client: Client) -> None:
    for token in ("x" * 100_000, "a.b.c", "\0", "MS4x", "-", "LTEuLTEuLTE"):
        request = client.request("ListTasks", {"pageToken": token})
        error = await refusal(client, request, "INVALID_PARAMS")
        assert error.fields == ["pageToken"]
        assert len(error.answer.body) < 2000


async def test_an_unknown_version_is_refused_whatever_the_request(client: Client) -> None:
    request = sending(client)
    for version in ("9.9", "x" * 10_000, "1.0\t2", "ä"):
        request.headers["a2a-version"] = version
        answer = await client.http.send(request)
        check_no_leak(answer)
        assert b"VERSION_NOT_SUPPORTED" in answer.body
        assert len(answer.body) < 2000


async def test_an_answer_does_not_grow_with_the_request(client: Client) -> None:
    huge = "x" * 100_000
    for path, value in (
        ("message.role", huge),
        ("message.messageId", huge),
        ("message.taskId", huge),
        ("configuration.historyLength", huge),
        ("message.parts.0.kind" if client.name == "jsonrpc-0.3" else "message.role", huge),
    ):
        request = edited(client, partial(put, path=path, value=value))
        error = await refusal(client, request, "INVALID_PARAMS")
        assert len(error.answer.body) < 2000


@over(*REST)
async def test_a_huge_path_is_unknown_and_not_repeated(client: Client) -> None:
    request = sending(client)
    request.path += "x" * 100_000
    error = await refusal(client, request, "ROUTE_NOT_FOUND")
    assert len(error.answer.body) < 2000


async def test_a_client_that_leaves_in_the_middle_of_its_request_does_no_harm(
    client: Client,
) -> None:
    request = sending(client)
    assert isinstance(request.body, bytes)
    scope = request.scope()
    messages: Iterator[Json] = iter(
        [
            {"type": "http.request", "body": request.body[:20], "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(_: Any) -> None:
        raise AssertionError("nobody is there to answer")

    await client.http.app(scope, receive, send)
