"""The operations and how each binding carries them (protocol section 1)."""

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import JSONRPC, REST, V10, in_memory, over, refused
from tests.bindings.clients import CLIENTS, OPERATIONS, Client, JsonRpcClient, message
from tests.bindings.shapes import Json
from tests.bindings.world import World

database = in_memory

PARAMS: dict[str, Json] = {
    "SendMessage": {"message": message("say hi")},
    "SendStreamingMessage": {"message": message("say hi")},
    "ListTasks": {},
    "GetExtendedAgentCard": {},
    "CreateTaskPushNotificationConfig": {"taskId": "made-up", "url": "https://hook.example"},
    "GetTaskPushNotificationConfig": {"taskId": "made-up", "id": "made-up"},
    "ListTaskPushNotificationConfigs": {"taskId": "made-up"},
    "DeleteTaskPushNotificationConfig": {"taskId": "made-up", "id": "made-up"},
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_every_operation_is_there(client: Client, operation: str) -> None:
    params = PARAMS.get(operation, {"id": "made-up"})
    answer = await client.http.send(client.request(operation, params))
    assert b"METHOD_NOT_FOUND" not in answer.body
    assert b"ROUTE_NOT_FOUND" not in answer.body
    assert answer.status in (200, 400, 404)


async def test_all_bindings_show_the_same_task(world: World) -> None:
    clients = [world.client(name) for name in CLIENTS]
    for client in clients:
        task = await client.run("say hi; artifact data {}; ask which?")
        seen = [await other.get(task["id"]) for other in clients]
        assert [other == task for other in seen] == [True] * len(clients)


async def test_all_bindings_give_the_same_errors(world: World) -> None:
    task = await world.client("jsonrpc-1.0").run("say hi")
    for name in CLIENTS:
        client = world.client(name)
        with refused("TASK_NOT_CANCELABLE") as caught:
            await client.cancel(task["id"])
        assert caught.value.message == f"Task {task['id']} has already ended (TASK_STATE_COMPLETED)"


async def test_get_and_cancel_give_a_bare_task(client: Client) -> None:
    task = await client.run("ask which?")
    for operation in ("GetTask", "CancelTask"):
        answer = await client.http.send(client.request(operation, {"id": task["id"]}))
        assert client.body_of(answer)["id"] == task["id"]


@over("jsonrpc-1.0", "rest-1.0", "rest-0.3")
async def test_send_gives_a_wrapped_task_or_message(client: Client, world: World) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    assert set(client.body_of(await client.http.send(request))) == {"task"}
    world.agent.may_reply_directly = True
    request = client.request("SendMessage", {"message": message("reply hi")})
    assert set(client.body_of(await client.http.send(request))) == {"message"}


@over(*JSONRPC)
@pytest.mark.parametrize("id", ["text", "", 'ü\n"', 0, 7, -1, 2**80, None])
async def test_a_jsonrpc_answer_has_the_id_of_its_request(
    client: Client, id: str | int | None
) -> None:
    assert isinstance(client, JsonRpcClient)
    client.request_id = id
    if isinstance(id, int) and id > 2**63:
        # JSON knows no such bound, though this encoder does.
        client.request_id = "HUGE"
    for operation, params in (("ListTasks", {}), ("GetTask", {"id": "made-up"})):
        request = client.request(operation, params)
        assert isinstance(request.body, bytes)
        request.body = request.body.replace(b'"HUGE"', str(id).encode())
        answer = await client.http.send(request)
        assert answer.status == 200
        assert answer.body.startswith(b'{"jsonrpc":"2.0","id":%b,' % _json(id))


def _json(id: str | int | None) -> bytes:
    return str(id).encode() if isinstance(id, int) else msgspec.json.encode(id)


@over(*JSONRPC)
async def test_jsonrpc_answers_and_errors_ride_on_http_200_as_json(client: Client) -> None:
    for operation, params in (("ListTasks", {}), ("GetTask", {"id": "made-up"})):
        answer = await client.http.send(client.request(operation, params))
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"


@over(*JSONRPC)
async def test_jsonrpc_takes_post_alone(client: Client) -> None:
    request = client.request("ListTasks", {})
    for method in ("GET", "PUT", "DELETE"):
        request.method = method
        with refused("METHOD_NOT_ALLOWED") as caught:
            client.body_of(await client.http.send(request))
        assert caught.value.answer.headers["allow"] == "POST"


@over("rest-1.0")
async def test_rest_answers_in_the_media_type_that_the_client_uses(client: Client) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    for sent, accepted, answered in (
        ("application/json", None, "application/json"),
        ("application/json; charset=utf-8", "*/*", "application/json"),
        ("application/a2a+json", None, "application/a2a+json"),
        ("application/a2a+json", "application/json", "application/json"),
        ("application/json", "application/a2a+json", "application/a2a+json"),
    ):
        request.headers["content-type"] = sent
        request.headers.pop("accept", None)
        if accepted:
            request.headers["accept"] = accepted
        answer = await client.http.send(request)
        assert (answer.status, answer.headers["content-type"]) == (200, answered)


@over(*REST)
async def test_rest_answers_plain_json_unless_the_client_names_the_other_type(
    client: Client,
) -> None:
    """Errors included, and those from before the request is looked at."""
    for accepted, answered in (
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/a2a+json", "application/a2a+json"),
    ):
        for operation, params in (("ListTasks", {}), ("GetTask", {"id": "made-up"})):
            request = client.request(operation, params)
            request.headers.pop("accept", None)
            if accepted:
                request.headers["accept"] = accepted
            answer = await client.http.send(request)
            assert answer.headers["content-type"] == answered
            del request.headers["authorization"]
            answer = await client.http.send(request)
            assert (answer.status, answer.headers["content-type"]) == (401, answered)


@over(*REST)
async def test_rest_subscribes_by_post_and_by_get(client: Client) -> None:
    task = await client.run("ask which?")
    for method in ("POST", "GET"):
        request = client.request("SubscribeToTask", {"id": task["id"]})
        request.method = method
        async with client.http.open(request) as response:
            assert response.status == 200
            assert response.headers["content-type"] == "text/event-stream"


@over(*REST)
async def test_rest_names_the_methods_that_a_path_takes(client: Client) -> None:
    request = client.request("ListTasks", {})
    request.method = "PUT"
    with refused("METHOD_NOT_ALLOWED") as caught:
        client.body_of(await client.http.send(request))
    assert caught.value.answer.headers["allow"] == "GET"


@over(*REST)
async def test_rest_says_that_a_path_is_unknown(client: Client) -> None:
    request = client.request("ListTasks", {})
    request.path = request.path.replace("/tasks", "/tusks")
    with refused("ROUTE_NOT_FOUND"):
        client.body_of(await client.http.send(request))


@over(*REST)
async def test_rest_paths_may_be_percent_encoded(client: Client) -> None:
    task = await client.run("ask which?")
    request = client.request("CancelTask", {"id": task["id"]})
    request.path = request.path.replace("-", "%2D").replace(":", "%3A")
    canceled = client.result("CancelTask", await client.http.send(request))
    assert canceled["id"] == task["id"]


@over(*JSONRPC)
async def test_a_method_that_is_none_is_not_found(client: Client) -> None:
    request = client.request("ListTasks", {})
    assert isinstance(request.body, bytes)
    for name in (b"tasks/lost", b"LostTasks", b"lost", b""):
        body = msgspec.json.decode(request.body) | {"method": name.decode()}
        request.body = msgspec.json.encode(body)
        with refused("METHOD_NOT_FOUND"):
            client.body_of(await client.http.send(request))


@over(*V10)
async def test_input_may_be_snake_case_and_output_is_camel_case(client: Client) -> None:
    sent = {
        "message_id": "m-1",
        "context_id": "ours",
        "role": "ROLE_USER",
        "parts": [{"url": "https://a.example", "media_type": "text/plain"}],
        "reference_task_ids": ["made-up"],
    }
    params = {"message": sent, "configuration": {"history_length": 1, "return_immediately": False}}
    task = (await client.call("SendMessage", params))["task"]
    assert task["contextId"] == "ours"
    assert len(task["history"]) == 1
    [said] = (await client.get(task["id"]))["history"][:1]
    assert said["messageId"] == "m-1"
    assert said["parts"] == [{"url": "https://a.example", "mediaType": "text/plain"}]
    assert said["referenceTaskIds"] == ["made-up"]
    page = await client.call("ListTasks", {"page_size": 1, "include_artifacts": True})
    assert page["pageSize"] == 1
    assert "artifacts" in page["tasks"][0]


async def test_requests_may_come_in_pieces(client: Client) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    assert isinstance(request.body, bytes)
    request.body = [request.body[:10], b"", request.body[10:]]
    assert "task" in client.result("SendMessage", await client.http.send(request))


async def test_an_agent_is_served_under_its_handle_too(world: World, dialect: str) -> None:
    root, own = world.client(dialect), world.client(dialect, agent="test/scripted")
    task = await root.run("say hi")
    assert await own.get(task["id"]) == task
    async with own.stream("say hi") as stream:
        await stream.rest()


async def test_a_path_of_nobody_tells_where_the_cards_are(world: World) -> None:
    answer = await world.http.send(Http(method="GET", path="/nowhere"))
    assert answer.status == 404
    assert "/.well-known/agent-card.json" in answer.json()["error"]["message"]
