"""Service parameters and extensions (protocol section 3)."""

from collections.abc import AsyncIterator

import pytest
from tests.bindings.cases import V03, over, refused
from tests.bindings.clients import Client, message
from tests.bindings.world import World, open_world

from trunkline.settings.agent_card import ExtensionSettings

TRACE = "https://ext.example/trace/v1"
COLOR = "https://ext.example/color/v1"
MUST = "https://ext.example/must/v1"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    extensions = (ExtensionSettings(uri=TRACE), ExtensionSettings(uri=COLOR))
    async with open_world(extensions=extensions) as world:
        yield world


@pytest.fixture
async def strict() -> AsyncIterator[World]:
    extensions = (ExtensionSettings(uri=MUST, required=True), ExtensionSettings(uri=COLOR))
    async with open_world(extensions=extensions) as world:
        yield world


def listing(*uris: str) -> dict[str, str]:
    return {"a2a-extensions": ", ".join(uris)}


async def test_listed_extensions_reach_the_agent(client: Client, world: World) -> None:
    await client.run("say hi", headers=listing(TRACE, COLOR))
    assert world.agent.turns[-1].extensions == (TRACE, COLOR)


async def test_extensions_that_are_not_listed_are_not_active(client: Client, world: World) -> None:
    await client.run("say hi")
    assert world.agent.turns[-1].extensions == ()


async def test_unknown_extensions_are_ignored(client: Client, world: World) -> None:
    await client.run("say hi", headers=listing("https://nobody.example/x", COLOR))
    assert world.agent.turns[-1].extensions == (COLOR,)


async def test_a_header_that_lists_too_many_is_refused(client: Client, world: World) -> None:
    await client.run("say hi", headers=listing(*[COLOR] * 100))
    request = client.request("SendMessage", {"message": message("say hi")})
    request.headers |= listing(*[COLOR] * 101)
    answer = await client.http.send(request)
    with refused("INVALID_REQUEST") as caught:
        client.body_of(answer)
    assert "A2A-Extensions lists 101 extensions, and at most 100 are taken" in str(caught.value)


async def test_uris_are_case_sensitive(client: Client, world: World) -> None:
    await client.run("say hi", headers=listing(COLOR.upper()))
    assert world.agent.turns[-1].extensions == ()


async def test_the_answer_names_the_extensions_in_use(client: Client) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    request.headers |= listing(COLOR, "https://nobody.example/x")
    answer = await client.http.send(request)
    assert answer.headers["a2a-extensions"] == COLOR
    async with client.stream("say hi", headers=listing(TRACE)) as stream:
        assert stream.response.headers["a2a-extensions"] == TRACE
        await stream.rest()
    answer = await client.http.send(client.request("ListTasks", {}))
    assert "a2a-extensions" not in answer.headers


@over(*V03)
async def test_0_3_uses_a_header_of_its_own(client: Client, world: World) -> None:
    request = client.request("SendMessage", {"message": message("say hi")})
    request.headers["x-a2a-extensions"] = COLOR
    answer = await client.http.send(request)
    assert world.agent.turns[-1].extensions == (COLOR,)
    assert answer.headers["x-a2a-extensions"] == COLOR


async def test_a_required_extension_that_is_not_listed_is_refused(
    strict: World, dialect: str
) -> None:
    client = strict.client(dialect)
    for headers in ({}, listing(COLOR), listing(MUST.replace("v1", "v2"))):
        with refused("EXTENSION_SUPPORT_REQUIRED") as caught:
            await client.run("say hi", headers=headers)
        assert caught.value.metadata == {"extensions": MUST}
        with refused("EXTENSION_SUPPORT_REQUIRED"):
            async with client.stream("say hi", headers=headers):
                pass
        with refused("EXTENSION_SUPPORT_REQUIRED"):
            await client.call("GetTask", {"id": "made-up"}, headers=headers)
    page = await client.call("ListTasks", {}, headers=listing(MUST))
    assert page["totalSize"] == 0


async def test_a_required_extension_that_is_listed_is_fine(strict: World, dialect: str) -> None:
    task = await strict.client(dialect).run("say hi", headers=listing(COLOR, MUST))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert strict.agent.turns[-1].extensions == (MUST, COLOR)


async def test_data_of_extensions_passes_in_both_directions(client: Client, world: World) -> None:
    sent = message("say hi", metadata={COLOR: {"hue": 42}}, extensions=[COLOR])
    task = await client.run(sent, metadata={TRACE: "abc"}, headers=listing(COLOR, TRACE))
    turn = world.agent.turns[-1]
    assert turn.metadata == {TRACE: "abc"}
    assert turn.message.metadata == {COLOR: {"hue": 42}}
    assert turn.message.extensions == (COLOR,)
    said = task["history"][0]
    assert (said["metadata"], said["extensions"]) == ({COLOR: {"hue": 42}}, [COLOR])
