"""A large text reaches every client whole, in pieces, and the same as a small one would."""

import asyncio
import zlib
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.bindings.clients import Client, message
from tests.bindings.world import World, open_world

from trunkline.model.large_values import MARK, MARK_TEXT, SLICE_BYTES, LargeValue, value_id
from trunkline.server.calls import JsonRpcCall
from trunkline.stores.memory import MemoryStore

# Larger than a slice, with what JSON escapes and what takes several bytes.
TEXT = 'A line with "quotes", ünïcode ✓ and 😀.\n' * 20_000
FORGED = LargeValue(value_id("guess"), "").reference


def short(text: str) -> str:
    """The text, or what tells a large one from others: a failure is to be readable."""
    return text if len(text) < 200 else f"{len(text)} characters, {zlib.crc32(text.encode())}"


WHOLE = short(TEXT)


def texts(value: Any) -> list[str]:
    """Every text of every part, wherever it is."""
    if isinstance(value, dict):
        own = [short(value["text"])] if isinstance(value.get("text"), str) else []
        return own + [text for each in value.values() for text in texts(each)]
    return [text for each in value for text in texts(each)] if isinstance(value, list) else []


async def test_blocking_send_is_answered_with_the_text(client: Client) -> None:
    task = await client.run(TEXT)
    # The question in history; the answer in an artifact, in the status and in history.
    assert texts(task) == [WHOLE] * 4


async def test_get_has_the_text(client: Client) -> None:
    sent = await client.run(TEXT)
    assert texts(await client.get(sent["id"])) == texts(sent) == [WHOLE] * 4


async def test_list_has_the_text(world: World) -> None:
    client = world.client("jsonrpc-1.0")
    await client.run(TEXT)
    page = await client.list(includeArtifacts=True)
    assert texts(page["tasks"]) == [WHOLE] * 4


async def test_stream_and_replay_have_the_text(client: Client) -> None:
    async with client.stream(TEXT) as stream:
        events = await stream.rest()
    shown = [texts(event.value) for event in events]
    assert [text for each in shown for text in each].count(WHOLE) >= 3
    assert MARK_TEXT not in "".join(text for each in shown for text in each)


async def test_short_history_leaves_the_text_out(client: Client) -> None:
    sent = await client.run(TEXT)
    task = await client.get(sent["id"], historyLength=0)
    assert texts(task) == [WHOLE] * 2


async def test_a_text_that_looks_like_a_reference_is_a_text(client: Client) -> None:
    task = await client.run(FORGED)
    assert texts(task) == [FORGED] * 4
    mixed = f"{MARK_TEXT}{FORGED} {FORGED}"
    assert texts(await client.run(mixed)) == [mixed] * 4


async def test_a_reference_of_somebody_else_is_a_text(world: World) -> None:
    """Whoever learned one, by whatever way, gets nothing for it."""
    alice, bob = world.client("jsonrpc-1.0"), world.client("jsonrpc-1.0", "bob")
    await alice.run(TEXT)
    entries = await world.runtime.store.entries(
        (await alice.list())["tasks"][0]["id"], after=0, limit=9
    )
    stolen = next(entry.body for entry in entries if MARK in entry.body)
    start = stolen.index(MARK)
    reference = stolen[start : start + len(FORGED)].decode()
    assert texts(await bob.run(reference)) == [reference] * 4


@asynccontextmanager
async def inline_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A gateway that has every text where it belongs."""
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "keeps_large_values", False)
        async with open_world() as world:
            yield world


async def answers(world: World, dialect: str) -> list[bytes]:
    """The bodies of reads of one task, and the events of its replay."""
    client = world.client(dialect)
    # Ids of the client's own, or they differ from run to run.
    sent = {**message(TEXT), "messageId": "m-1", "contextId": "c-1"}
    task = (await client.send(sent))["task"]
    found = []
    for params in ({}, {"historyLength": 1}):
        answer = await world.http.send(client.request("GetTask", {"id": task["id"]} | params))
        assert answer.status == 200
        found.append(answer.body)
    request = client.request("SubscribeToTask", {"id": task["id"]})
    request.headers["Last-Event-ID"] = "1"
    answer = await world.http.send(request)
    assert answer.status == 200
    found.append(answer.body)
    return [body.replace(task["id"].encode(), b"TASK") for body in found]


async def test_answers_are_the_same_bytes_as_without_references(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with inline_world(monkeypatch) as world:
        inline = await answers(world, dialect)
    assert all(TEXT.encode()[:10] in body for body in inline)
    async with open_world() as world:
        found = await answers(world, dialect)
    assert [len(body) for body in found] == [len(body) for body in inline]
    # Not the bodies themselves: nobody could read how they differ.
    same = [a == b for a, b in zip(found, inline, strict=True)]
    assert same == [True] * 3


async def test_an_answer_goes_out_in_pieces_with_others_in_between(world: World) -> None:
    client = world.client("jsonrpc-1.0")
    text = "x" * (20 * SLICE_BYTES)
    task = await client.run(text)
    pieces, passes = await _pieces(world, client.request("GetTask", {"id": task["id"]}))
    assert sum(map(len, pieces)) > 4 * len(text)
    assert max(map(len, pieces)) <= SLICE_BYTES
    large = [number for piece, number in zip(pieces, passes, strict=True) if len(piece) > 1000]
    assert len(large) == 80
    assert len(set(large)) == 80, "two pieces went out in one pass of the loop"


async def _pieces(world: World, request: Http) -> tuple[list[bytes], list[int]]:
    """What the application writes, and in which pass of the loop."""
    loop = asyncio.get_running_loop()
    count = 0
    is_over = False

    def tick() -> None:
        nonlocal count
        count += 1
        if not is_over:
            loop.call_soon(tick)

    tick()
    pieces: list[bytes] = []
    passes: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            pieces.append(message["body"])
            passes.append(count)

    await world.gateway.application(request.scope(), receive, send)
    is_over = True
    return pieces, passes


async def test_large_bodies_are_decoded_one_per_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    count = 0
    is_over = False

    def tick() -> None:
        nonlocal count
        count += 1
        if not is_over:
            loop.call_soon(tick)

    passes: list[int] = []
    read = JsonRpcCall.read

    def noticed(*args: Any) -> Any:
        passes.append(count)
        return read(*args)

    monkeypatch.setattr(JsonRpcCall, "read", noticed)
    tick()
    client = world.client("jsonrpc-1.0")
    tasks = await asyncio.gather(*[client.run(f"{number}{TEXT}{TEXT}") for number in range(4)])
    is_over = True
    assert [texts(task)[0] for task in tasks] == [short(f"{n}{TEXT}{TEXT}") for n in range(4)]
    assert len(set(passes)) == 4, "two large bodies were decoded in one pass of the loop"
