"""Version negotiation (protocol section 2)."""

import pytest
from tests.bindings.cases import JSONRPC, REST, V03, V10, in_memory, over, refused
from tests.bindings.clients import Client
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
