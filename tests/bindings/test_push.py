"""Push notifications, which Trunkline does not offer (protocol section 9)."""

import msgspec
import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import in_memory, over, refused
from tests.bindings.clients import PUSH, Client, message
from tests.bindings.world import World

database = in_memory

HOOK = {"url": "https://hook.example/a2a"}


@pytest.mark.parametrize("operation", PUSH)
async def test_every_push_operation_is_refused(client: Client, operation: str) -> None:
    task = await client.run("say hi")
    for task_id in (task["id"], "made-up"):
        params = {"taskId": task_id} | (HOOK if operation.startswith("Create") else {})
        if operation.startswith(("Get", "Delete")):
            params["id"] = "config-1"
        with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
            await client.call(operation, params)


async def test_an_inline_configuration_is_refused_and_nothing_is_stored(client: Client) -> None:
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        await client.send("say hi", taskPushNotificationConfig=HOOK)
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        async with client.stream("say hi", taskPushNotificationConfig=HOOK):
            pass
    assert (await client.list())["totalSize"] == 0


async def test_an_inline_configuration_of_a_follow_up_is_refused(client: Client) -> None:
    asked = await client.run("ask which?")
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        await client.send(message("say hi", task=asked["id"]), taskPushNotificationConfig=HOOK)
    assert await client.get(asked["id"]) == asked


@over("jsonrpc-0.3")
async def test_0_3_may_get_without_the_id_of_a_configuration(client: Client) -> None:
    request = client.request("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"})
    assert isinstance(request.body, bytes)
    body = msgspec.json.decode(request.body)
    del body["params"]["pushNotificationConfigId"]
    request.body = msgspec.json.encode(body)
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        client.body_of(await client.http.send(request))


async def test_the_card_says_that_there_is_no_push(world: World) -> None:
    for form in ("1.0", "0.3"):
        request = Http(
            method="GET", path="/.well-known/agent-card.json", headers={"a2a-version": form}
        )
        card = (await world.http.send(request)).json()
        assert card["capabilities"]["pushNotifications"] is False
