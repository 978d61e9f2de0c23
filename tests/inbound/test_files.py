"""The profile keys about files in messages (X-17)."""

import base64

import pytest
from tests.bindings.cases import JSONRPC, over, refused
from tests.bindings.clients import CLIENTS, message
from tests.bindings.shapes import Json
from tests.bindings.world import open_world

TEN_BYTES: Json = {"raw": base64.b64encode(b"0123456789").decode(), "mediaType": "text/plain"}
LINKED: Json = {"url": "https://example.com/large", "mediaType": "text/plain"}


@over(*CLIENTS)
@pytest.mark.parametrize("part", [TEN_BYTES, LINKED], ids=["inline", "linked"])
async def test_x17_files_are_accepted_by_default(part: Json, dialect: str) -> None:
    async with open_world() as world:
        await world.client(dialect).run(message(part, "say hi"))
        [turn] = world.agent.turns
    assert len(turn.message.parts) == 2


@over(*CLIENTS)
@pytest.mark.parametrize("part", [TEN_BYTES, LINKED], ids=["inline", "linked"])
@pytest.mark.parametrize(
    ("code", "reason"), [(-32005, "CONTENT_TYPE_NOT_SUPPORTED"), (-32602, "INVALID_PARAMS")]
)
async def test_x17_files_are_rejected(part: Json, code: int, reason: str, dialect: str) -> None:
    async with open_world(files="reject", files_reject_code=code) as world:
        client = world.client(dialect)
        with refused(reason) as caught:
            await client.send(message("say hi", part))
        assert "message.parts[1]" in caught.value.message
        assert "send text or data" in caught.value.message
        if dialect in JSONRPC:
            assert caught.value.answer.json()["error"]["code"] == code
        assert not world.agent.turns
        assert (await client.run("say hi"))["id"]


@over(*CLIENTS)
async def test_x17_files_are_ignored(dialect: str) -> None:
    async with open_world(files="ignore") as world:
        task = await world.client(dialect).run(message(TEN_BYTES, "say hi", LINKED))
        [turn] = world.agent.turns
    assert [part.text for part in turn.message.parts] == ["say hi"]
    assert task["history"][0]["parts"] == [{"text": "say hi"}]


@over(*CLIENTS)
async def test_x17_a_message_of_ignored_files_alone_is_refused(dialect: str) -> None:
    async with open_world(files="ignore") as world:
        with refused("INVALID_PARAMS", "message.parts") as caught:
            await world.client(dialect).send(message(TEN_BYTES))
        assert not world.agent.turns
    assert "files alone" in caught.value.message


@over(*CLIENTS)
async def test_x17_a_file_may_be_so_large(dialect: str) -> None:
    """The decoded size counts, and of files that are here."""
    async with open_world(max_file_bytes=10) as world:
        client = world.client(dialect)
        assert (await client.run(message(TEN_BYTES, LINKED, "say hi")))["id"]
        large = TEN_BYTES | {"raw": base64.b64encode(b"0123456789a").decode()}
        with refused("INVALID_PARAMS", "message.parts[1]") as caught:
            await client.send(message("say hi", large))
        assert len(world.agent.turns) == 1
    assert "11 bytes" in caught.value.message
    assert "10 at most" in caught.value.message


@over(*CLIENTS)
async def test_x17_a_refused_file_changes_no_history(dialect: str) -> None:
    async with open_world(files="reject") as world:
        client = world.client(dialect)
        task = await client.run("ask which?")
        with refused("CONTENT_TYPE_NOT_SUPPORTED"):
            await client.send(message(LINKED, id="m-2", task=task["id"]))
        again = await client.get(task["id"])
    assert again["history"] == task["history"]
