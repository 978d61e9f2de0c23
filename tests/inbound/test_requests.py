"""Requests and errors over JSON-RPC as an OpenClaw has them (inbound.md I-6)."""

from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.inbound.peer import Peer, error_in, inbound_world, user

PUSH = [f"tasks/pushNotificationConfig/{verb}" for verb in ("set", "get", "list", "delete")]
INVALID_REQUEST = {"code": -32600, "message": "Invalid JSON-RPC Request."}
INVALID_PARAMS = {"code": -32602, "message": "Invalid method parameters."}
WRONG_TYPE = {"code": -32700, "message": "Invalid request body type."}


@pytest.mark.parametrize("method", PUSH)
@pytest.mark.parametrize("params", [None, [], {}, {"taskId": "t"}])
async def test_i6_push_methods_are_unknown_before_their_params_are_looked_at(
    method: str, params: Any
) -> None:
    async with inbound_world() as world:
        error = await Peer(world).error(method, params)
    assert error == {"code": -32601, "message": f"Method not found: {method}"}


@pytest.mark.parametrize("id", ["a", 7, None])
async def test_i6_the_id_of_a_refused_method_comes_back(id: Any) -> None:
    async with inbound_world() as world:
        answer = await Peer(world).call(PUSH[0], id=id)
    assert answer.json()["id"] == id


@pytest.mark.parametrize("method", ["tasks/list", "SendMessage", "GetTask", "nothing", ""])
async def test_i6_unknown_methods(method: str) -> None:
    async with inbound_world() as world:
        error = await Peer(world).error(method, {})
    assert error == {"code": -32601, "message": f"Method not found: {method}"}


@pytest.mark.parametrize("params", [None, {}])
async def test_i6_the_extended_card_is_not_supported_with_or_without_params(params: Any) -> None:
    async with inbound_world() as world:
        error = await Peer(world).error("agent/getAuthenticatedExtendedCard", params)
    assert error == {
        "code": -32004,
        "message": "Unsupported operation: Agent does not support authenticated extended card.",
    }


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"1.0","id":1,"method":"tasks/get","params":{"id":"t"}}',
        b'{"id":1,"method":"tasks/get","params":{"id":"t"}}',
        b'{"jsonrpc":"2.0","id":1,"params":{"id":"t"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t"}}]',
        b"",
    ],
    ids=["jsonrpc is not 2.0", "jsonrpc is missing", "method is missing", "batch", "no body"],
)
async def test_i6_what_is_no_request(body: bytes) -> None:
    async with inbound_world() as world:
        assert error_in(await Peer(world).post(body)) == INVALID_REQUEST


@pytest.mark.parametrize("id", ["{}", "[1]", "true", "1.5"])
async def test_i6_an_id_of_the_wrong_type_is_refused_and_not_sent_back(id: str) -> None:
    """The original sends it back as it is."""
    body = f'{{"jsonrpc":"2.0","id":{id},"method":"tasks/get","params":{{"id":"t"}}}}'
    async with inbound_world() as world:
        answer = await Peer(world).post(body.encode())
    assert error_in(answer) == INVALID_REQUEST
    assert answer.json()["id"] is None


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_i6_the_wrong_content_type(kind: str) -> None:
    """Also a form, which the original takes for a request and runs."""
    body = msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "message/send",
            "params": {"message": user("say hi")},
        }
    )
    async with inbound_world() as world:
        assert error_in(await Peer(world).post(body, content_type=kind)) == WRONG_TYPE
        assert not world.agent.turns


async def test_i6_a_form_is_not_run() -> None:
    form = b"jsonrpc=2.0&id=1&method=message%2Fsend&params[message][messageId]=m"
    async with inbound_world() as world:
        answer = await Peer(world).post(form, content_type="application/x-www-form-urlencoded")
        assert error_in(answer) == WRONG_TYPE
        assert not world.agent.turns


@pytest.mark.parametrize("method", ["message/send", "message/stream", "tasks/get", "tasks/cancel"])
@pytest.mark.parametrize("params", [None, [], [{"id": "t"}], {"": 1, "id": "t"}, "text"])
async def test_i6_params_must_be_an_object_with_names(method: str, params: Any) -> None:
    async with inbound_world() as world:
        assert await Peer(world).error(method, params) == INVALID_PARAMS


async def test_i6_a_notification_is_run_and_answered_with_id_null() -> None:
    body = {"jsonrpc": "2.0", "method": "message/send", "params": {"message": user("say hi")}}
    async with inbound_world() as world:
        answer = await Peer(world).post(msgspec.json.encode(body))
        assert answer.status == 200
        assert answer.json()["id"] is None
        assert answer.json()["result"]["status"]["state"] == "completed"
        assert len(world.agent.turns) == 1


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("message/send", {"configuration": {}}, "message is required."),
        ("message/send", {"message": {"messageId": "m", "role": "user"}}, None),
        ("tasks/get", {"historyLength": 1}, "id is required."),
        ("tasks/cancel", {"metadata": {}}, "id is required."),
        ("tasks/get", {"id": ""}, "id must not be empty."),
        ("tasks/get", {"id": 5}, "id must be a string, got a number."),
    ],
)
async def test_d11_a_missing_field_is_named(method: str, params: Any, message: str | None) -> None:
    """D11: the original leaks an error of its language with -32603."""
    async with inbound_world() as world:
        error = await Peer(world).error(method, params)
    assert error == {"code": -32602, "message": message or "message.parts is required."}


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc":"2.0",', b"\xff", b"not json"])
async def test_d11_malformed_json_is_a_parse_error(body: bytes) -> None:
    """D11: the original answers HTTP 500."""
    async with inbound_world() as world:
        error = error_in(await Peer(world).post(body))
    assert error["code"] == -32700
    assert "the body is not valid" in error["message"]


async def test_d11_a_json_string_is_no_request() -> None:
    """D11: the original answers HTTP 500."""
    async with inbound_world() as world:
        assert error_in(await Peer(world).post(b'"hello"')) == INVALID_REQUEST


async def test_d11_a_body_too_large_is_413() -> None:
    """D11: the original answers HTTP 500."""
    async with inbound_world(max_body_bytes=100) as world:
        answer = await Peer(world).post(b" " * 101)
    assert answer.status == 413
    assert "larger than 100 bytes" in answer.json()["error"]["message"]


async def test_i6_an_explicit_1_0_is_a_version_that_is_not_supported() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": user("hi")}}
    async with inbound_world() as world:
        answer = await Peer(world).post(msgspec.json.encode(body), a2a_version="1.0")
    assert error_in(answer) == {
        "code": -32009,
        "message": 'A2A version "1.0" is not supported; supported versions: 0.3',
    }


async def test_i6_who_has_no_key_still_gets_401() -> None:
    async with inbound_world() as world:
        answer = await world.http.send(Http(path="/a2a/jsonrpc", body=b"{}"))
    assert answer.status == 401
    assert "www-authenticate" in answer.headers
