"""The fake model, over real sockets, in all the forms that it speaks."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from trunkline.protocol.sse import Parser
from trunkline.testing.fake_model import FakeModel

PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages"]


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with FakeModel() as model:
        yield model


def body(path: str, text: str, **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": "fake-1", "input": text} | more
    return {"model": "fake-1", "messages": [{"role": "user", "content": text}]} | more


async def ask(fake: FakeModel, path: str, text: str, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=fake.url) as client:
        return await client.post(path, json=body(path, text, **more))


async def stream(model: FakeModel, path: str, text: str, **more: Any) -> list[Any]:
    """The events, decoded."""
    answer = await ask(model, path, text, stream=True, **more)
    assert answer.headers["content-type"] == "text/event-stream"
    parsed = Parser().feed(answer.content)
    return [json.loads(event.data) for event in parsed if event.data != b"[DONE]"]


async def test_chat_whole(model: FakeModel) -> None:
    answer = (await ask(model, PATHS[0], "THINK hm\nSAY hello you\nTOOL now")).json()
    message = answer["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("hello you", "hm")
    assert message["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens"] == 4


async def test_chat_streamed(model: FakeModel) -> None:
    options = {"include_usage": True}
    text = 'THINK hm\nSAY hello you\nTOOL now {"zone": "utc"}'
    events = await stream(model, PATHS[0], text, stream_options=options)
    assert events[-1]["usage"]["completion_tokens"] == 4
    choices = [event["choices"][0] for event in events[:-1]]
    assert "".join(c["delta"].get("content", "") for c in choices) == "hello you"
    pieces = [c["delta"]["tool_calls"][0] for c in choices if "tool_calls" in c["delta"]]
    assert json.loads("".join(p["function"]["arguments"] for p in pieces)) == {"zone": "utc"}
    assert choices[-1]["finish_reason"] == "tool_calls"


async def test_chat_tells_usage_when_asked(model: FakeModel) -> None:
    assert all("usage" not in event for event in await stream(model, PATHS[0], "hello"))


async def test_responses(model: FakeModel) -> None:
    text = "THINK hm\nSAY hello you\nTOOL now"
    whole = (await ask(model, PATHS[1], text)).json()
    events = await stream(model, PATHS[1], text)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    for output in (whole["output"], events[-1]["response"]["output"]):
        assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
        assert output[1]["content"][0]["text"] == "hello you"
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert deltas == ["hello", " you"]


async def test_messages(model: FakeModel) -> None:
    text = 'THINK hm\nSAY hello you\nTOOL now {"zone": "utc"}'
    whole = (await ask(model, PATHS[2], text)).json()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    events = await stream(model, PATHS[2], text)
    starts = [e["content_block"]["type"] for e in events if e["type"] == "content_block_start"]
    stops = [e["index"] for e in events if e["type"] == "content_block_stop"]
    assert (starts, stops) == (["thinking", "text", "tool_use"], [0, 1, 2])
    pieces = [e["delta"].get("partial_json", "") for e in events if "index" in e and "delta" in e]
    assert json.loads("".join(pieces)) == {"zone": "utc"}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_tokens_are_counted(model: FakeModel) -> None:
    answer = await ask(model, "/v1/messages/count_tokens", "how many")
    assert answer.json()["input_tokens"] > 0


@pytest.mark.parametrize("path", PATHS)
async def test_failures_as_statuses(model: FakeModel, path: str) -> None:
    answer = await ask(model, path, "FAIL 429 after 3 times 1")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert answer.json()["error"]["message"]
    assert "recovered" in (await ask(model, path, "FAIL 429 after 3 times 1")).text
    assert (await ask(model, path, "HTML")).headers["content-type"] == "text/html"
    assert (await ask(model, path, "x", model="missing-1")).status_code == 404


@pytest.mark.parametrize("path", PATHS)
async def test_failures_in_the_middle(model: FakeModel, path: str) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(model, path, "SLOW 2\nCUT", stream=True)
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(model, path, "CUT")
    assert model.requests[-1].outcome == "cut"
    assert b"{not json" in (await ask(model, path, "GARBAGE", stream=True)).content
    assert (await ask(model, path, "GARBAGE")).content == b"{not json"
    assert "no luck" in (await ask(model, path, "ERROR no luck", stream=True)).text
    assert (await ask(model, path, "ERROR no luck")).json()["error"]["message"] == "no luck"
    assert len((await ask(model, path, "FLOOD 100000")).content) > 100_000


@pytest.mark.parametrize("text", ["ENDLESS 1", "HANG"])
async def test_a_client_that_leaves_is_noticed(model: FakeModel, text: str) -> None:
    async with httpx.AsyncClient(base_url=model.url) as client:
        given = body(PATHS[0], text, stream=True)
        async with client.stream("POST", PATHS[0], json=given) as answer:
            assert await anext(answer.aiter_bytes())
            assert model.requests[0].outcome == "answering"
    seen = await model.until(lambda seen: seen.outcome != "answering")
    assert (seen.text, seen.outcome) == (text, "closed")


async def test_what_was_asked_is_on_record(model: FakeModel) -> None:
    await ask(model, PATHS[0], "hello")
    async with httpx.AsyncClient(base_url=model.url) as client:
        record = (await client.get("/requests")).json()
        assert [(r["path"], r["text"], r["outcome"]) for r in record] == [
            (PATHS[0], "hello", "answered")
        ]
        assert record[0]["body"]["messages"] == [{"role": "user", "content": "hello"}]
        assert (await client.request("DELETE", "/requests")).json() == []
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "fake-1"
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.post(PATHS[0], content=b"{")).status_code == 400
    assert len(model.requests) == 2


async def test_a_key() -> None:
    async with FakeModel(api_key="k") as model, httpx.AsyncClient(base_url=model.url) as client:
        given = body(PATHS[0], "hello")
        assert (await client.post(PATHS[0], json=given)).status_code == 401
        for headers in ({"Authorization": "Bearer k"}, {"x-api-key": "k"}):
            assert (await client.post(PATHS[0], json=given, headers=headers)).status_code == 200
        assert (await client.get("/v1/models")).status_code == 401


async def test_bytes_that_are_no_request(model: FakeModel) -> None:
    port = int(model.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"nonsense\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400")
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    assert (await ask(model, PATHS[0], "still there")).status_code == 200
