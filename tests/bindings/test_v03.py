"""What is different in 0.3 (protocol section 15). The clients check its shapes on every
answer; here is what they do not see."""

from typing import Any

import msgspec
from tests.bindings.asgi import Http
from tests.bindings.cases import V03, in_memory, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.shapes import Json
from tests.bindings.world import World

from trunkline.testing import settle

database = in_memory


def rpc(client: Client, method: str, params: Any) -> Http:
    request = client.request("ListTasks", {})
    request.body = msgspec.json.encode(
        {"jsonrpc": "2.0", "id": "request-1", "method": method, "params": params}
    )
    return request


async def rpc_result(client: Client, method: str, params: Any) -> Any:
    return client.body_of(await client.http.send(rpc(client, method, params)))


USER: Json = {
    "kind": "message",
    "messageId": "m-1",
    "role": "user",
    "parts": [{"kind": "text", "text": "say hi"}],
}


@over("jsonrpc-0.3")
async def test_a_task_of_0_3_over_jsonrpc(client: Client) -> None:
    task = await rpc_result(client, "message/send", {"message": USER})
    assert task["kind"] == "task"
    assert task["status"]["state"] == "completed"
    ids = {"contextId": task["contextId"], "taskId": task["id"]}
    assert task["history"][0] == USER | ids
    assert task["status"]["message"]["role"] == "agent"
    assert task["artifacts"] == [
        {"artifactId": "answer", "name": "answer", "parts": [{"kind": "text", "text": "hi"}]}
    ]


@over("jsonrpc-0.3")
async def test_a_direct_reply_of_0_3_is_a_bare_message(client: Client, world: World) -> None:
    world.agent.may_reply_directly = True
    sent = USER | {"parts": [{"kind": "text", "text": "reply hello"}]}
    reply = await rpc_result(client, "message/send", {"message": sent})
    assert reply["kind"] == "message"
    assert reply["parts"] == [{"kind": "text", "text": "hello"}]


@over("rest-0.3")
async def test_a_task_of_0_3_over_rest(client: Client) -> None:
    body = {"message": {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "say hi"}]}}
    request = Http(
        path="/a2a/rest/v1/message:send",
        headers={"content-type": "application/json"} | client.headers,
        body=msgspec.json.encode(body),
    )
    task = client.body_of(await client.http.send(request))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["history"][0]["content"] == [{"text": "say hi"}]
    assert task["artifacts"][0]["parts"] == [{"text": "hi"}]


@over("rest-0.3")
async def test_rest_of_0_3_takes_the_shapes_of_jsonrpc_as_well(client: Client) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    request.body = msgspec.json.encode({"message": USER})
    task = client.result("SendMessage", await client.http.send(request))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["history"][0]["parts"] == [{"text": "say hi"}]


@over("rest-0.3")
async def test_rest_of_0_3_spells_canceled_with_two_ls(client: Client) -> None:
    task = await client.run("ask which?")
    answer = await client.http.send(client.request("CancelTask", {"id": task["id"]}))
    assert answer.json()["status"]["state"] == "TASK_STATE_CANCELLED"


@over("jsonrpc-0.3")
async def test_every_state_has_its_name_in_0_3(client: Client) -> None:
    asking = USER | {"parts": [{"kind": "text", "text": "auth sign in"}]}
    for script, state in (
        ("say hi", "completed"),
        ("fail no", "failed"),
        ("refuse no", "rejected"),
        ("ask which?", "input-required"),
        ("auth sign in", "auth-required"),
    ):
        sent = USER | {"parts": [{"kind": "text", "text": script}]}
        task = await rpc_result(client, "message/send", {"message": sent})
        assert task["status"]["state"] == state
    task = await rpc_result(client, "message/send", {"message": asking})
    canceled = await rpc_result(client, "tasks/cancel", {"id": task["id"]})
    assert canceled["status"]["state"] == "canceled"
    page = await rpc_result(client, "tasks/list", {"status": "input-required"})
    assert page["totalSize"] == 1


@over(*V03)
async def test_only_the_last_event_is_final(client: Client) -> None:
    for script in ("note on it; say hi", "say hi; ask which?", "fail no"):
        async with client.stream(script) as stream:
            events = await stream.rest()
        finals = [e.value["final"] for e in events if e.kind == "statusUpdate"]
        assert finals[-1] is True
        assert not any(finals[:-1])
        assert events[-1].kind == "statusUpdate"


@over(*V03)
async def test_a_question_that_was_answered_is_not_final(client: Client) -> None:
    task = await client.run("ask which?")
    await client.run(message("ask how many?", task=task["id"]))
    after = {"last-event-id": "1"}
    async with client.subscribe(task["id"], headers=after) as stream:
        asking = await stream.rest()
    await client.run(message("say three", task=task["id"]))
    async with client.subscribe(task["id"], headers=after) as stream:
        ended = await stream.rest()
    for events, last in ((asking, "TASK_STATE_INPUT_REQUIRED"), (ended, "TASK_STATE_COMPLETED")):
        updates = [event for event in events if event.kind == "statusUpdate"]
        assert [event.value["final"] for event in updates] == [False] * (len(updates) - 1) + [True]
        assert (events[-1], events[-1].state) == (updates[-1], last)
    # The same question, once open and once answered.
    assert ended[: len(asking) - 1] == asking[:-1]
    assert ended[len(asking) - 1].state == asking[-1].state


@over(*V03)
async def test_auth_required_is_not_final(client: Client) -> None:
    async with client.stream("auth sign in") as stream:
        events = await stream.until("TASK_STATE_AUTH_REQUIRED")
    assert events[-1].value["final"] is False


@over("jsonrpc-0.3")
async def test_blocking_has_the_inverse_meaning(client: Client, world: World) -> None:
    sent = USER | {"parts": [{"kind": "text", "text": "wait gate; say hi"}]}
    params = {"message": sent, "configuration": {"blocking": False}}
    task = await rpc_result(client, "message/send", params)
    assert task["status"]["state"] in ("submitted", "working")
    world.agent.gates.open("gate")
    params = {"message": USER, "configuration": {"blocking": True}}
    assert (await rpc_result(client, "message/send", params))["status"]["state"] == "completed"


@over("jsonrpc-0.3")
async def test_without_blocking_the_answer_waits(client: Client) -> None:
    params = {"message": USER, "configuration": {}}
    assert (await rpc_result(client, "message/send", params))["status"]["state"] == "completed"


@over("rest-0.3")
async def test_rest_of_0_3_reads_a_configuration_without_blocking_as_false(
    client: Client, world: World
) -> None:
    request = client.request("SendMessage", {"message": message("wait gate; say hi")})
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body) | {"configuration": {}}
    request.body = msgspec.json.encode(body)
    task = client.result("SendMessage", await client.http.send(request))["task"]
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    world.agent.gates.open("gate")


@over("jsonrpc-0.3")
async def test_files_of_0_3_by_content_and_by_address(client: Client, world: World) -> None:
    files = [
        {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGVsbG8="},
        {"name": "b.txt", "mimeType": "text/plain", "uri": "https://files.example/b"},
    ]
    sent = USER | {"parts": [{"kind": "file", "file": file} for file in files]}
    task = await rpc_result(client, "message/send", {"message": sent})
    assert [part["file"] for part in task["history"][0]["parts"]] == files
    first, second = world.agent.turns[-1].message.parts
    assert (first.raw, first.filename, first.media_type) == (b"hello", "a.txt", "text/plain")
    assert second.url == "https://files.example/b"


@over("jsonrpc-0.3")
async def test_a_part_says_of_which_kind_it_is(client: Client, world: World) -> None:
    """0.3, 6.5: `kind` is required. The JSON of its proto, over HTTP+JSON, has none."""
    for part in ({"text": "say hi"}, {"data": {"a": 1}}, {"file": {"uri": "https://x.example"}}):
        with refused("INVALID_PARAMS", "message.parts[0].kind"):
            await rpc_result(client, "message/send", {"message": USER | {"parts": [part]}})
    for kind in ("data", "image"):
        sent = USER | {"parts": [{"kind": kind, "text": "say hi"}]}
        with refused("INVALID_PARAMS", "message.parts[0].kind"):
            await rpc_result(client, "message/send", {"message": sent})
    assert not world.agent.turns


@over("jsonrpc-0.3")
async def test_a_message_of_another_kind_is_refused(client: Client, world: World) -> None:
    for kind in ("task", "text"):
        with refused("INVALID_PARAMS", "message.kind"):
            await rpc_result(client, "message/send", {"message": USER | {"kind": kind}})
    assert not world.agent.turns


@over("jsonrpc-0.3")
async def test_the_inline_push_configuration_of_0_3_is_refused(client: Client) -> None:
    push = {"url": "https://hook.example", "authentication": {"schemes": ["Bearer"]}}
    params = {"message": USER, "configuration": {"pushNotificationConfig": push}}
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        await rpc_result(client, "message/send", params)


@over(*V03)
async def test_resubscribe_goes_on_with_a_running_task(client: Client, world: World) -> None:
    task = await client.run("wait gate; say hi", returnImmediately=True)
    async with client.subscribe(task["id"]) as stream:
        await settle()
        world.agent.gates.open("gate")
        events = await stream.rest()
    assert events[-1].value["final"] is True


@over("rest-0.3")
async def test_subscribe_of_0_3_over_rest_by_get(client: Client) -> None:
    task = await client.run("ask which?")
    request = client.request("SubscribeToTask", {"id": task["id"]})
    request.method = "GET"
    async with client.http.open(request) as response:
        assert response.headers["content-type"] == "text/event-stream"
