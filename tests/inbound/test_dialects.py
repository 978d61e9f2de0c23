"""The profile key `dialect` (X-01): what an agent speaks, and what it does not."""

import msgspec
import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.cases import JSONRPC, REST, V03, V10, over, refused
from tests.bindings.clients import CLIENTS, OPERATIONS, V03_METHODS, Client, message
from tests.bindings.shapes import Json
from tests.bindings.world import BASE_URL, KEYS, World, open_world
from tests.inbound.wire import RPC, old, rpc

ONLY_10: Json = {"dialect": "v1.0"}
ONLY_03: Json = {"dialect": "v0.3", "default_version": "0.3"}
LEGACY: Json = {"dialect": "v0.3-legacy", "default_version": "0.3"}
ROOT = "/a2a/rest"
TEXT: Json = {"kind": "text", "text": "say hi"}


@pytest.mark.parametrize("keys", [{}, ONLY_10], ids=["auto", "v1.0"])
@over(*V10)
async def test_x01_1_0_is_spoken(keys: Json, dialect: str) -> None:
    async with open_world(**keys) as world:
        task = await world.client(dialect).run("say hi")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("keys", [{}, ONLY_03, LEGACY], ids=["auto", "v0.3", "v0.3-legacy"])
@over(*V03)
async def test_x01_0_3_is_spoken(keys: Json, dialect: str) -> None:
    async with open_world(**keys) as world:
        task = await world.client(dialect).run("say hi")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_x01_without_0_3_its_methods_are_of_a_version_that_is_not_supported(
    operation: str,
) -> None:
    async with open_world(**ONLY_10) as world:
        answer = await rpc(world, V03_METHODS[operation], {})
    # A refused stream of 0.3 is a stream of one error.
    error = msgspec.json.decode(answer.body.removeprefix(b"data: "))["error"]
    assert error["code"] == -32009
    assert error["message"].startswith("This agent speaks A2A 1.0 alone")
    assert error["message"].endswith(f'send "A2A-Version: 1.0" and call "{operation}"')


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_x01_without_1_0_its_methods_are_unknown(operation: str) -> None:
    async with open_world(**ONLY_03) as world:
        error = (await rpc(world, operation, {})).json()["error"]
    assert error["code"] == -32601
    assert error["message"].startswith(f"Method not found: {operation}; ")
    assert error["data"][0]["metadata"] == {"method": operation, "version": "0.3"}


@pytest.mark.parametrize(
    ("keys", "dialect", "spoken"),
    [
        (ONLY_03, "rest-1.0", "0.3"),
        (LEGACY, "rest-1.0", "0.3"),
    ],
)
async def test_x01_the_paths_of_the_other_version_are_not_there(
    keys: Json, dialect: str, spoken: str
) -> None:
    async with open_world(**keys) as world:
        client = world.client(dialect)
        client.headers.pop("a2a-version", None)
        with refused("ROUTE_NOT_FOUND") as caught:
            await client.call("SendMessage", {"message": message("say hi")})
    assert f"this agent speaks {spoken} alone" in caught.value.message


@pytest.mark.parametrize(
    ("keys", "stated", "spoken"),
    [(ONLY_10, "0.3", "1.0"), (ONLY_03, "1.0", "0.3"), (LEGACY, "1.0.1", "0.3")],
)
@over(*JSONRPC, *REST)
async def test_x01_an_explicit_version_that_is_not_spoken_is_refused(
    keys: Json, stated: str, spoken: str, dialect: str
) -> None:
    async with open_world(**keys) as world:
        request = world.client(dialect).request("GetTask", {"id": "t"})
        request.headers["a2a-version"] = stated
        answer = await world.http.send(request)
    assert b"VERSION_NOT_SUPPORTED" in answer.body
    assert f"supported versions: {spoken}".encode() in answer.body
    if dialect in JSONRPC:
        assert answer.json()["error"]["code"] == -32009


async def test_x01_the_one_version_may_be_stated() -> None:
    async with open_world(**ONLY_03) as world:
        answer = await rpc(world, "message/send", old(TEXT), a2a_version="0.3.0")
    assert answer.json()["result"]["kind"] == "task"


async def card_of(world: World, query: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = "/.well-known/agent-card.json"
    return await world.http.send(Http(method="GET", path=path, query=query, headers=named))


async def test_x01_the_card_of_an_agent_without_0_3_names_1_0_alone() -> None:
    async with open_world(**ONLY_10) as world:
        card = (await card_of(world)).json()
        asked = await card_of(world, a2a_version="0.3")
    assert {each["protocolVersion"] for each in card["supportedInterfaces"]} == {"1.0"}
    assert "url" not in card
    assert b"VERSION_NOT_SUPPORTED" in asked.body


@pytest.mark.parametrize("keys", [ONLY_03, LEGACY], ids=["v0.3", "v0.3-legacy"])
@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("format=1.0", {}),
        ("format=hybrid", {}),
        ("", {"a2a_version": "1.0"}),
        ("", {"a2a_version": "0.3"}),
        ("", {"a2a_version": "9.9"}),
    ],
)
async def test_x01_the_card_of_an_agent_without_1_0_is_that_of_0_3_whatever_is_asked(
    keys: Json, query: str, headers: dict[str, str]
) -> None:
    async with open_world(**keys) as world:
        card = (await card_of(world, query, **headers)).json()
    assert "supportedInterfaces" not in card
    assert (card["protocolVersion"], card["url"]) == ("0.3.0", BASE_URL + RPC)
    assert card["additionalInterfaces"] == [{"url": BASE_URL + ROOT, "transport": "HTTP+JSON"}]


@over(*CLIENTS)
async def test_x28_hidden_lists_are_unknown(dialect: str) -> None:
    async with open_world(list_tasks="hidden") as world:
        client: Client = world.client(dialect)
        with refused("METHOD_NOT_FOUND") as caught:
            await client.list()
        assert caught.value.answer.status == (404 if dialect in REST else 200)
        assert (await client.run("say hi"))["id"]


@over(*CLIENTS)
async def test_x08_cancel_may_be_unknown(dialect: str) -> None:
    async with open_world(cancel="unsupported", cancel_unsupported_code=-32601) as world:
        client = world.client(dialect)
        task = await client.run("ask which?")
        with refused("METHOD_NOT_FOUND"):
            await client.cancel(task["id"])


async def test_a_notification_is_refused_by_default() -> None:
    async with open_world() as world:
        body = {"jsonrpc": "2.0", "method": "message/send", "params": old(TEXT)}
        answer = await world.http.send(
            Http(
                path=RPC,
                headers={
                    "content-type": "application/json",
                    "authorization": f"Bearer {KEYS['alice']}",
                },
                body=msgspec.json.encode(body),
            )
        )
        assert answer.json()["error"]["code"] == -32600
        assert not world.agent.turns
