"""What errors look like (protocol section 10). The clients check every error they see
against the tables of the specification; here are the errors as they are written."""

from typing import Any

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import JSONRPC, REST, V03, V10, in_memory, over, refused
from tests.bindings.clients import (
    BAD_REQUEST,
    ERROR_INFO,
    PUSH,
    STREAMING,
    Client,
    JsonRpcClient,
    message,
)
from tests.bindings.shapes import Json
from tests.bindings.world import World, open_world

from trunkline.settings.agent_card import ExtensionSettings

database = in_memory


@over("jsonrpc-1.0")
async def test_a_jsonrpc_error_has_error_info_in_an_array(client: Client) -> None:
    answer = await client.http.send(client.request("GetTask", {"id": "made-up"}))
    assert answer.status == 200
    assert answer.json() == {
        "jsonrpc": "2.0",
        "id": "request-1",
        "error": {
            "code": -32001,
            "message": "Task not found: made-up",
            "data": [
                {
                    "@type": ERROR_INFO,
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "made-up"},
                }
            ],
        },
    }


@over("rest-1.0")
async def test_a_rest_error_is_a_google_rpc_status(client: Client) -> None:
    answer = await client.http.send(client.request("GetTask", {"id": "made-up"}))
    assert answer.status == 404
    # Not application/problem+json, which older examples show.
    assert answer.headers["content-type"] == "application/a2a+json"
    assert answer.json() == {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "Task not found: made-up",
            "details": [
                {
                    "@type": ERROR_INFO,
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "made-up"},
                }
            ],
        }
    }


@over("rest-0.3")
async def test_a_rest_error_of_0_3_says_type_and_message_at_the_top(client: Client) -> None:
    answer = await client.http.send(client.request("GetTask", {"id": "made-up"}))
    assert answer.status == 404
    body = answer.json()
    assert (body["type"], body["message"]) == ("TaskNotFoundError", "Task not found: made-up")


async def test_invalid_params_name_the_fields(client: Client) -> None:
    with refused("INVALID_PARAMS", "configuration.historyLength") as caught:
        await client.send("say hi", historyLength=-1)
    [violation] = [d for d in caught.value.details if d["@type"] == BAD_REQUEST]
    assert violation["fieldViolations"] == [
        {"field": "configuration.historyLength", "description": "must not be negative"}
    ]


@over(*V03)
async def test_0_3_knows_no_codes_beyond_its_own(dialect: str) -> None:
    extension = ExtensionSettings(uri="https://ext.example/must", required=True)
    async with open_world(extensions=(extension,)) as world:
        client = world.client(dialect)
        answer = await client.http.send(client.request("ListTasks", {}))
        body = answer.json()
        if client.binding == "jsonrpc":
            assert body["error"]["code"] == -32004
        else:
            assert body["type"] == "ExtensionSupportRequiredError"


@over("jsonrpc-1.0", "rest-1.0", "rest-0.3")
async def test_a_refused_stream_is_a_plain_error(client: Client) -> None:
    request = client.request("SubscribeToTask", {"id": "made-up"})
    answer = await client.http.send(request)
    with refused("TASK_NOT_FOUND"):
        client.body_of(answer)
    assert answer.status == (200 if client.binding == "jsonrpc" else 404)


@over("jsonrpc-0.3")
async def test_a_refused_stream_of_0_3_is_a_stream_of_one_error(client: Client) -> None:
    """Clients of 0.3 take anything but a stream for a broken answer and do not look into it."""
    missing: Json = {"message": message("hi") | {"parts": []}}
    for operation, params, reason in (
        ("SubscribeToTask", {"id": "made-up"}, "TASK_NOT_FOUND"),
        ("SendStreamingMessage", {"message": message("hi", task="made-up")}, "TASK_NOT_FOUND"),
        ("SendStreamingMessage", missing, "INVALID_PARAMS"),
    ):
        answer = await client.http.send(client.request(operation, params))
        assert answer.headers["content-type"] == "text/event-stream"
        # No name of an event: each is a response of JSON-RPC, and this is no other.
        assert answer.body.startswith(b'data: {"jsonrpc":"2.0","id":"request-1","error":{')
        with refused(reason):
            client.body_of(answer)


@over("jsonrpc-0.3")
async def test_a_client_that_states_0_3_gets_a_plain_error(client: Client) -> None:
    """It is an SDK of 1.0 that speaks 0.3; these give a plain error its type."""
    client.headers["a2a-version"] = "0.3"
    answer = await client.http.send(client.request("SubscribeToTask", {"id": "made-up"}))
    assert answer.headers["content-type"] == "application/json"
    with refused("TASK_NOT_FOUND"):
        client.body_of(answer)


@over("jsonrpc-0.3")
@pytest.mark.parametrize("params", ["[]", "5", '"text"'])
async def test_a_stream_of_0_3_without_parameters_is_a_stream_of_one_error(
    client: Client, params: str
) -> None:
    request = client.request("SendStreamingMessage", {"message": message("hi")})
    envelope = '{"jsonrpc":"2.0","id":"request-1","method":"message/stream","params":%s}'
    request.body = (envelope % params).encode()
    answer = await client.http.send(request)
    assert answer.headers["content-type"] == "text/event-stream"
    with refused("INVALID_PARAMS"):
        client.body_of(answer)


@over("jsonrpc-0.3")
async def test_a_refused_stream_of_0_3_that_is_about_http_has_its_status(
    client: Client, world: World
) -> None:
    world.runtime.stop_admitting()
    request = client.request("SendStreamingMessage", {"message": message("hi")})
    answer = await client.http.send(request)
    assert (answer.status, answer.headers["content-type"]) == (503, "application/json")
    assert answer.headers["retry-after"] == "5"


async def test_a_failure_after_the_stream_began_is_a_failed_task(client: Client) -> None:
    async with client.stream("say hi; crash") as stream:
        events = await stream.rest()
    assert events[-1].state == "TASK_STATE_FAILED"


async def test_all_input_is_checked_before_anything_happens(client: Client, world: World) -> None:
    sent = message("say hi", id="")
    with refused("INVALID_PARAMS", "message.messageId"):
        await client.send(sent)
    assert not world.agent.turns
    assert (await client.list())["totalSize"] == 0


async def test_a_gateway_that_stops_says_come_back(client: Client, world: World) -> None:
    world.runtime.stop_admitting()
    with refused("UNAVAILABLE") as caught:
        await client.send("say hi")
    assert caught.value.answer.headers["retry-after"] == "5"
    # What exists can still be read.
    assert (await client.list())["totalSize"] == 0


@over(*V10)
async def test_a_full_queue_rejects_the_task(dialect: str) -> None:
    async with open_world(max_queue_per_context=1) as world:
        client = world.client(dialect)
        await client.run(message("wait gate", context="ours"), returnImmediately=True)
        await world.agent.gates.reached("gate")
        await client.run(message("say 2", context="ours"), returnImmediately=True)
        task = await client.run(message("say 3", context="ours"))
        assert task["status"]["state"] == "TASK_STATE_REJECTED"
        assert task["status"]["message"]["metadata"] == {
            "reason": "queue_full",
            "retryAfterSeconds": 5,
        }
        world.agent.gates.open("gate")


@over(*JSONRPC)
async def test_only_errors_about_http_have_an_http_status_over_jsonrpc(client: Client) -> None:
    request = client.request("ListTasks", {})
    request.headers["content-type"] = "text/plain"
    with refused("UNSUPPORTED_MEDIA_TYPE") as caught:
        client.body_of(await client.http.send(request))
    assert caught.value.answer.status == 415


@over(*REST)
async def test_the_status_line_and_the_body_agree(client: Client) -> None:
    for operation in ("GetTask", "CancelTask"):
        answer = await client.http.send(client.request(operation, {"id": "made-up"}))
        assert answer.status == answer.json()["error"]["code"] == 404


def with_params(client: Client, operation: str, params: bytes) -> Http:
    """A request whose parameters are these, whatever they should be; over REST its body."""
    ids = {"id": "t", "taskId": "t"}
    request = client.request(
        operation, {"message": message("hi")} if "Message" in operation else ids
    )
    if isinstance(client, JsonRpcClient):
        envelope = b'{"jsonrpc":"2.0","id":"request-1","method":"%b","params":%b}'
        request.body = envelope % (client.method(operation).encode(), params)
    elif request.method == "POST":
        request.body = params
    return request


BROKEN = [b"{}", b'{"message":5,"id":5,"taskId":5,"tenant":5}', b"[]", b"7"]


@pytest.mark.parametrize("params", BROKEN)
@pytest.mark.parametrize("operation", STREAMING)
async def test_streams_that_are_not_offered_come_before_their_parameters(
    dialect: str, operation: str, params: bytes
) -> None:
    """A2A 1.0, 3.3.4: what is wrong with the parameters of no operation does not matter."""
    async with open_world(streaming=False) as world:
        client = world.client(dialect)
        with refused("UNSUPPORTED_OPERATION"):
            client.body_of(await client.http.send(with_params(client, operation, params)))


@pytest.mark.parametrize("params", BROKEN)
@pytest.mark.parametrize("operation", PUSH)
async def test_push_notifications_that_are_not_offered_come_before_their_parameters(
    client: Client, operation: str, params: bytes
) -> None:
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED") as caught:
        client.body_of(await client.http.send(with_params(client, operation, params)))
    assert "not supported" in caught.value.message


@pytest.mark.parametrize("params", BROKEN)
async def test_an_extended_card_that_is_not_offered_comes_before_its_parameters(
    client: Client, params: bytes
) -> None:
    is_old = client.version == "0.3"
    with refused("EXTENDED_AGENT_CARD_NOT_CONFIGURED" if is_old else "UNSUPPORTED_OPERATION"):
        request = with_params(client, "GetExtendedAgentCard", params)
        client.body_of(await client.http.send(request))


@over(*V10)
async def test_an_inline_push_configuration_says_that_push_is_not_supported(client: Client) -> None:
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED") as caught:
        await client.send("hi", taskPushNotificationConfig={"url": "https://hook.example"})
    assert "not supported" in caught.value.message


def without_id(client: Client, method: str, params: Json) -> Http:
    request = client.request("ListTasks", {})
    request.body = msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})
    return request


@over(*JSONRPC)
async def test_a_request_without_an_id_is_checked_before_its_id(
    client: Client, world: World
) -> None:
    """JSON-RPC: method and parameters are wrong with and without an id."""
    assert isinstance(client, JsonRpcClient)
    send = client.method("SendMessage")
    unknown = "tasks/other" if client.version == "0.3" else "Other"
    for method, params, reason in (
        (unknown, {}, "METHOD_NOT_FOUND"),
        (send, {}, "INVALID_PARAMS"),
        (send, {"message": {"parts": []}}, "INVALID_PARAMS"),
        (client.method("GetTask"), {"id": 5}, "INVALID_PARAMS"),
        (client.method("ListTaskPushNotificationConfigs"), {}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        (send, client.params("SendMessage", {"message": message("hi")}), "INVALID_REQUEST"),
        (client.method("GetTask"), {"id": "made-up"}, "INVALID_REQUEST"),
    ):
        answer = await client.http.send(without_id(client, method, params))
        assert answer.json()["id"] is None
        with refused(reason):
            client.body_of(answer)
    assert not world.agent.turns
    assert (await client.list())["totalSize"] == 0


@over(*JSONRPC)
async def test_a_body_of_another_type_is_a_content_type_that_is_not_supported(
    client: Client,
) -> None:
    request = client.request("ListTasks", {})
    request.headers["content-type"] = "text/plain"
    answer = await client.http.send(request)
    assert (answer.status, answer.json()["error"]["code"]) == (415, -32005)


@over(*JSONRPC)
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_json_that_is_nested_too_deeply_is_refused_under_its_id(
    client: Client, operation: str
) -> None:
    """SDKs drop an error that is not for the request they sent, and those of 0.3 one that is no
    stream where they asked for it."""
    deep: Any = "deep"
    for _ in range(100):
        deep = [deep]
    sent = message({"data": {"value": deep}})
    answer = await client.http.send(client.request(operation, {"message": sent}))
    is_stream = client.version == "0.3" and operation in STREAMING
    assert (answer.headers["content-type"] == "text/event-stream") is is_stream
    assert answer.body.removeprefix(b"data: ").startswith(b'{"jsonrpc":"2.0","id":"request-1",')
    with refused("INVALID_REQUEST"):
        client.body_of(answer)
