"""Version negotiation (protocol section 2)."""

import msgspec
import pytest
from tests.bindings.asgi import Answer
from tests.bindings.cases import JSONRPC, REST, V03, V10, in_memory, over, refused
from tests.bindings.clients import OPERATIONS, STREAMING, Client, message
from tests.bindings.shapes import Json
from tests.bindings.world import World, open_world

database = in_memory


def without_version(client: Client) -> Client:
    client.headers.pop("a2a-version", None)
    return client


async def test_a_patch_number_makes_no_difference(client: Client) -> None:
    client.headers["a2a-version"] = f"{client.version}.7"
    assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_version_may_be_in_the_query(client: Client) -> None:
    without_version(client)
    request = client.request("ListTasks", {})
    for name in ("A2A-Version", "a2a-version"):
        request.query = f"{name}={client.version}"
        assert client.result("ListTasks", await client.http.send(request))["totalSize"] == 0


@pytest.mark.parametrize("version", ["1.7", "2.0", "0.2", "0.4", "10.3", "1", "one", "1.0-beta"])
async def test_an_unsupported_version_is_refused(client: Client, version: str) -> None:
    client.headers["a2a-version"] = version
    # The refusal has the form of 1.0: who asks for a version that we do not know is newer.
    answer = await client.http.send(client.request("ListTasks", {}))
    body = answer.json()["error"]
    if client.binding == "jsonrpc":
        assert (answer.status, body["code"]) == (200, -32009)
        assert answer.json()["id"] == "request-1"
        details = body["data"]
    else:
        assert (answer.status, body["code"]) == (400, 400)
        assert body["status"] == "FAILED_PRECONDITION"
        details = body["details"]
    assert details[0]["reason"] == "VERSION_NOT_SUPPORTED"
    assert details[0]["metadata"]["supportedVersions"] == "1.0, 0.3"
    assert details[0]["metadata"]["requestedVersion"] == version


async def test_an_unsupported_version_in_the_query_is_refused(client: Client) -> None:
    without_version(client)
    request = client.request("ListTasks", {})
    request.query = "A2A-Version=3.0"
    answer = await client.http.send(request)
    assert b"VERSION_NOT_SUPPORTED" in answer.body


@over(*V10)
async def test_header_and_query_that_differ_are_refused(client: Client) -> None:
    request = client.request("ListTasks", {})
    request.query = "A2A-Version=0.3"
    with refused("VERSION_NOT_SUPPORTED"):
        client.body_of(await client.http.send(request))
    request.query = "A2A-Version=1.0"
    client.body_of(await client.http.send(request))


async def test_an_empty_version_is_no_statement(client: Client) -> None:
    client.headers["a2a-version"] = ""
    assert (await client.list())["totalSize"] == 0


@over(*V03)
async def test_0_3_needs_no_version_and_may_state_it(client: Client) -> None:
    without_version(client)
    await client.run("say hi")
    client.headers["a2a-version"] = "0.3"
    assert (await client.list())["totalSize"] == 1


@over(*V10)
async def test_the_form_of_1_0_without_a_version_is_1_0(client: Client) -> None:
    without_version(client)
    assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


@over(*JSONRPC)
async def test_a_method_of_the_other_version_is_not_found(client: Client) -> None:
    client.headers["a2a-version"] = "0.3" if client.version == "1.0" else "1.0"
    answer = await client.http.send(client.request("ListTasks", {}))
    error = answer.json()["error"]
    assert error["code"] == -32601
    assert f"belongs to A2A {client.version}" in error["message"]


@over(*REST)
async def test_a_path_of_the_other_version_is_not_found(client: Client) -> None:
    client.headers["a2a-version"] = "0.3" if client.version == "1.0" else "1.0"
    answer = await client.http.send(client.request("ListTasks", {}))
    assert answer.status == 404
    assert f"is a path of A2A {client.version}" in answer.json()["error"]["message"]


async def test_one_address_serves_both_versions(world: World) -> None:
    newer, older = world.client("jsonrpc-1.0"), world.client("jsonrpc-0.3")
    assert newer.address == older.address
    task = await newer.run("say hi")
    assert await older.get(task["id"]) == task


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_an_agent_may_choose_the_version_of_requests_that_show_none(version: str) -> None:
    async with open_world(default_version=version) as world:
        client = without_version(world.client("jsonrpc-1.0"))
        request = client.request("ListTasks", {})
        assert isinstance(request.body, bytes)
        request.body = request.body.replace(b"ListTasks", b"neither")
        error = (await client.http.send(request)).json()["error"]
        assert error["code"] == -32601
        assert error["data"][0]["metadata"]["version"] == version


ONLY_10 = {"dialect": "v1.0"}
STRICT_10 = ONLY_10 | {"default_version": "0.3"}
PARAMS: dict[str, Json] = {
    "SendMessage": {"message": message("say hi")},
    "SendStreamingMessage": {"message": message("say hi")},
    "GetTask": {"id": "t"},
    "CancelTask": {"id": "t"},
    "SubscribeToTask": {"id": "t"},
    "CreateTaskPushNotificationConfig": {"taskId": "t", "url": "https://hook.example"},
    "GetTaskPushNotificationConfig": {"taskId": "t", "id": "c"},
    "ListTaskPushNotificationConfigs": {"taskId": "t"},
    "DeleteTaskPushNotificationConfig": {"taskId": "t", "id": "c"},
}


def check_version_not_supported(client: Client, answer: Answer) -> None:
    """In the form of 1.0, whatever the request looks like: the error is newer than 0.3."""
    if client.binding == "jsonrpc":
        assert answer.status == 200
        body = answer.body
        if answer.headers["content-type"] == "text/event-stream":
            body = body.removeprefix(b"data: ")
        told = msgspec.json.decode(body)
        assert told["id"] == "request-1"
        assert told["error"]["code"] == -32009
        details = told["error"]["data"]
    else:
        assert answer.status == 400
        details = answer.json()["error"]["details"]
    assert details[0]["reason"] == "VERSION_NOT_SUPPORTED"
    assert details[0]["metadata"] == {"requestedVersion": "0.3", "supportedVersions": "1.0"}


@over(*V03)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_0_3_is_not_supported_by_an_agent_of_1_0_alone(dialect: str, operation: str) -> None:
    async with open_world(**ONLY_10) as world:
        client = world.client(dialect)
        request = client.request(operation, PARAMS.get(operation, {}))
        answer = await client.http.send(request)
        check_version_not_supported(client, answer)
        is_stream = client.binding == "jsonrpc" and operation in STREAMING
        assert (answer.headers["content-type"] == "text/event-stream") is is_stream
        # The same for a client that says what it means.
        request.headers["a2a-version"] = "0.3"
        check_version_not_supported(client, await client.http.send(request))


@over(*V10)
async def test_an_agent_of_1_0_alone_needs_no_version_either(dialect: str) -> None:
    async with open_world(**ONLY_10) as world:
        client = without_version(world.client(dialect))
        assert (await client.run("say hi"))["status"]["state"] == "TASK_STATE_COMPLETED"


@over(*V10)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_agent_may_read_every_request_without_a_version_as_0_3(
    dialect: str, operation: str
) -> None:
    """By the letter (A2A 1.0, 3.6.2); an agent that does not speak 0.3 then says so."""
    params = PARAMS.get(operation, {})
    async with open_world(default_version="0.3") as world:
        client = without_version(world.client(dialect))
        answer = await client.http.send(client.request(operation, params))
        reason = b"METHOD_NOT_FOUND" if client.binding == "jsonrpc" else b"ROUTE_NOT_FOUND"
        assert b'"reason":"%b"' % reason in answer.body
        assert b'send \\"A2A-Version: 1.0\\"' in answer.body
    async with open_world(**STRICT_10) as world:
        client = without_version(world.client(dialect))
        answer = await client.http.send(client.request(operation, params))
        check_version_not_supported(client, answer)


@over(*V10)
@pytest.mark.parametrize("keys", [{"default_version": "0.3"}, STRICT_10], ids=["auto", "v1.0"])
async def test_a_stated_version_is_served_whatever_the_default(dialect: str, keys: Json) -> None:
    async with open_world(**keys) as world:
        task = await world.client(dialect).run("say hi")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@over(*V03)
async def test_with_0_3_as_the_default_0_3_is_served(dialect: str) -> None:
    async with open_world(default_version="0.3") as world:
        task = await world.client(dialect).run("say hi")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
