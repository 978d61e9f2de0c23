"""Tenants (protocol section 12). 0.3 has none."""

import pytest
from tests.bindings.asgi import Http
from tests.bindings.cases import V03, V10, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.world import World, open_world


@over(*V10)
async def test_tenants_are_apart(world: World, dialect: str) -> None:
    acme, globex = (world.client(dialect, tenant=name) for name in ("acme", "globex"))
    nobody = world.client(dialect)
    task = await acme.run(message("ask which?", context="ours"))
    assert world.agent.turns[-1].tenant == "acme"
    assert await acme.get(task["id"]) == task
    for other in (globex, nobody):
        with refused("TASK_NOT_FOUND"):
            await other.get(task["id"])
        with refused("TASK_NOT_FOUND"):
            await other.cancel(task["id"])
        with refused("TASK_NOT_FOUND"):
            await other.send(message("say hi", task=task["id"]))
        with refused("TASK_NOT_FOUND"):
            async with other.subscribe(task["id"]):
                pass
        assert (await other.list())["totalSize"] == 0
        assert (await other.list(contextId="ours"))["totalSize"] == 0
    assert (await acme.list())["totalSize"] == 1


@over(*V10)
async def test_every_operation_knows_tenants(world: World, dialect: str) -> None:
    client = world.client(dialect, tenant="acme")
    task = await client.run("ask which?")
    async with client.subscribe(task["id"]) as stream:
        assert (await stream.next()).value["id"] == task["id"]
    async with client.stream("say hi") as stream:
        await stream.rest()
    await client.cancel(task["id"])
    with refused("PUSH_NOTIFICATION_NOT_SUPPORTED"):
        await client.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})
    with refused("UNSUPPORTED_OPERATION"):
        await client.call("GetExtendedAgentCard", {})


async def test_bindings_mean_the_same_tenant(world: World) -> None:
    for name in ("acme", "with space", "slash/in it", "ümlaut", "100%"):
        task = await world.client("jsonrpc-1.0", tenant=name).run("say hi")
        assert await world.client("rest-1.0", tenant=name).get(task["id"]) == task


@over("rest-1.0")
async def test_the_path_wins_over_the_body(client: Client, world: World) -> None:
    request = client.request("SendMessage", {"message": message("say hi"), "tenant": "globex"})
    await client.http.send(request)
    assert world.agent.turns[-1].tenant == "globex"
    request.path = request.path.replace("/message", "/acme/message")
    await client.http.send(request)
    assert world.agent.turns[-1].tenant == "acme"


@over("rest-1.0")
async def test_the_tenant_may_be_in_the_query_of_a_get(client: Client, world: World) -> None:
    await world.client("rest-1.0", tenant="acme").run("say hi")
    request = client.request("ListTasks", {"tenant": "acme"})
    assert client.result("ListTasks", await client.http.send(request))["totalSize"] == 1


@over(*V10)
async def test_a_tenant_that_an_agent_does_not_have_is_refused(dialect: str) -> None:
    async with open_world(tenants=("acme", "globex")) as world:
        assert (await world.client(dialect, tenant="acme").run("say hi"))["id"]
        for name in ("initech", ""):
            with refused("INVALID_PARAMS", "tenant"):
                await world.client(dialect, tenant=name).run("say hi")


@over(*V03)
async def test_an_agent_of_tenants_alone_is_not_for_0_3(dialect: str) -> None:
    async with open_world(tenants=("acme",)) as world:
        with refused("INVALID_PARAMS", "tenant"):
            await world.client(dialect).run("say hi")


async def test_the_card_names_the_tenants() -> None:
    async with open_world(tenants=("acme", "globex")) as world:
        request = Http(method="GET", path="/.well-known/agent-card.json")
        interfaces = (await world.http.send(request)).json()["supportedInterfaces"]
    assert {interface["tenant"] for interface in interfaces} == {"acme", "globex"}
    assert {interface["protocolVersion"] for interface in interfaces} == {"1.0"}


@pytest.mark.parametrize("name", ["tasks", "extendedAgentCard", "v1"])
async def test_names_of_routes_are_no_tenants(world: World, name: str) -> None:
    client = world.client("rest-1.0", tenant=name)
    answer = await client.http.send(client.request("SendMessage", {"message": message("say hi")}))
    if name == "v1":
        # That is the prefix of 0.3, whose messages have other members.
        assert answer.status == 404
    else:
        assert answer.status in (404, 405)
    assert not world.agent.turns


@over(*V10)
async def test_a_tenant_alone_grants_nothing(world: World, dialect: str) -> None:
    task = await world.client(dialect, tenant="acme").run("say hi")
    with refused("TASK_NOT_FOUND"):
        await world.client(dialect, "bob", tenant="acme").get(task["id"])


async def test_an_empty_tenant_is_no_tenant(world: World) -> None:
    client = world.client("jsonrpc-1.0")
    task = await client.run("say hi")
    request = client.request("GetTask", {"id": task["id"], "tenant": ""})
    assert client.result("GetTask", await client.http.send(request)) == task
