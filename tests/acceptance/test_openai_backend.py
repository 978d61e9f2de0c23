"""The openai backend against the fake model, over real sockets."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from trunkline.backends.kind import Resources
from trunkline.backends.openai.backend import OpenAIBackend
from trunkline.backends.openai.doctor import check
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.clock import SystemClock
from trunkline.config.secret import Secret
from trunkline.model.outputs import Failed, Final, Output, Refused, StageStarted, Text, ToolCalled
from trunkline.model.values import Part, Role
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.ports.tools import ToolDefinition, ToolResult, TurnTool
from trunkline.testing import FakeClock, FakeSession, answer_text, run_turn, turn_request
from trunkline.testing.fake_model import FakeModel, SeenRequest

KEY = "sk-nobody-may-see-this"
RESOURCES = Resources(clock=SystemClock(), data_dir=Path())
Make: TypeAlias = Callable[..., OpenAIBackend]


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with FakeModel(api_key=KEY) as model:
        yield model


def settings_of(fake: FakeModel, **changes: Any) -> OpenAISettings:
    keys: dict[str, Any] = {
        "base_url": f"{fake.url}/v1",
        "model": "fake-1",
        "api_key": Secret(KEY),
    }
    return OpenAISettings(**(keys | changes))


@pytest.fixture
async def make(model: FakeModel) -> AsyncIterator[Make]:
    """Makes backends of the model, and closes them."""
    made: list[OpenAIBackend] = []

    def make(
        *, clock: Clock | None = None, tools: tuple[TurnTool, ...] = (), **keys: Any
    ) -> OpenAIBackend:
        backend = OpenAIBackend(
            settings_of(model, **keys), clock=clock or SystemClock(), tools=tools
        )
        made.append(backend)
        return backend

    yield make
    for backend in made:
        await backend.close()


def messages(seen: SeenRequest) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in seen.body["messages"]]


async def test_text_streams_and_usage_is_told(make: Make, model: FakeModel) -> None:
    outputs = await run_turn(make(temperature=0.5, extra_body={"top_k": 3}), turn_request("hi you"))
    *texts, final = outputs
    assert texts == [Text("hi"), Text(" you")]
    assert isinstance(final, Final)
    assert final.metadata is not None
    usage = final.metadata["usage"]
    assert usage["outputTokens"] == 2
    assert usage["totalTokens"] == usage["inputTokens"] + 2
    asked = model.requests[0].body
    assert (asked["model"], asked["temperature"], asked["top_k"]) == ("fake-1", 0.5, 3)
    assert "tools" not in asked


async def test_a_server_that_does_not_stream(make: Make, model: FakeModel) -> None:
    outputs = await run_turn(make(stream=False), turn_request("hi you"))
    assert outputs[0] == Text("hi you")
    assert "stream" not in model.requests[0].body


async def test_thoughts_are_not_shown(make: Make) -> None:
    outputs = await run_turn(make(), turn_request("THINK secret\nSAY so"))
    assert outputs[:-1] == [Text("so")]


async def test_an_answer_that_got_too_long_says_so(make: Make) -> None:
    [_, final] = await run_turn(make(), turn_request("SAY cut\nLENGTH"))
    assert isinstance(final, Final)
    assert (final.metadata or {})["finishReason"] == "length"


async def test_a_filtered_answer_is_a_refusal(make: Make) -> None:
    [*_, end] = await run_turn(make(), turn_request("FILTER"))
    assert isinstance(end, Refused)


async def test_the_conversation_so_far(make: Make, model: FakeModel) -> None:
    session = FakeSession()
    for number in range(3):
        session.say(f"question {number}")
        session.say(f"answer {number}", role=Role.AGENT)
    history = (session.told[0], session.told[1])
    backend = make(system_prompt="be brief", max_history_turns=2)
    await run_turn(backend, turn_request("now", session=session, history=history))
    assert messages(model.requests[0]) == [
        ("system", "be brief"),
        ("user", "question 2"),
        ("assistant", "answer 2"),
        ("user", "question 0"),
        ("assistant", "answer 0"),
        ("user", "now"),
    ]
    await run_turn(make(max_history_turns=0), turn_request("now", session=session))
    assert messages(model.requests[1]) == [("user", "now")]


async def test_an_image(make: Make, model: FakeModel) -> None:
    image = Part(raw=b"png", media_type="image/png")
    [refused] = await run_turn(make(), turn_request("look", image))
    assert refused == Refused("The agent takes no images: send text.")
    assert model.requests == []
    outputs = await run_turn(make(images=True), turn_request("look", image))
    assert answer_text(outputs) == "look"
    [(_, content)] = messages(model.requests[0])
    assert [part["type"] for part in content] == ["text", "image_url"]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Those of the backend; on a busy machine asyncio has its own."""
    return [record for record in caplog.records if record.name == "trunkline.backends.openai"]


FAILURES = {
    "FAIL 401": "The model server does not let the gateway in.",
    "FAIL 404": "The model server does not have this model.",
    "FAIL 400": "The model server refuses the request.",
    "FAIL 500": "The model server failed.",
    "FAIL 429 after 900": "The model server has too much to do. Try again in 900 seconds.",
    "SLOW 2 1\nCUT": "The model server broke off in the middle of its answer.",
    "GARBAGE": "The model server sent something that is not an answer.",
    "HTML": "The model server sent something that is not an answer.",
    "ERROR out of memory": "The model server reported an error in the middle of its answer.",
    "HANG": "The model server was silent for too long.",
    "FLOOD 100000": "The answer of the model is larger than 50000 bytes.",
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("text", FAILURES)
async def test_failures(
    make: Make, caplog: pytest.LogCaptureFixture, text: str, stream: bool
) -> None:
    backend = make(idle_s=0.3, max_answer_bytes=50_000, stream=stream)
    outputs = await run_turn(backend, turn_request(text))
    assert outputs[-1] == Failed(FAILURES[text])
    [record] = warnings_of(caplog)
    assert (record.__dict__["run"], record.__dict__["why"]) == ("run-1", FAILURES[text])
    assert KEY not in str(record.__dict__)


async def test_a_stream_without_end_is_ended(make: Make, model: FakeModel) -> None:
    outputs = await run_turn(make(total_s=0.3), turn_request("ENDLESS 5"))
    assert outputs[-1] == Failed("The model took too long to answer.")
    await model.until(lambda seen: seen.outcome == "closed")


async def test_a_wrong_key(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    [failed] = await run_turn(make(api_key=Secret("sk-wrong-wrong")), turn_request("hi"))
    assert failed == Failed("The model server does not let the gateway in.")
    assert warnings_of(caplog)[0].__dict__["remedy"] == "Check api_key."


async def test_nobody_is_there(make: Make) -> None:
    clock = FakeClock()
    backend = make(base_url="http://127.0.0.1:9/v1", clock=clock)
    async with asyncio.TaskGroup() as group:
        run = group.create_task(run_turn(backend, turn_request("hi")))
        for pause_s in (0.2, 0.4):
            await clock.wait_until_sleeping()
            await clock.advance(pause_s)
    assert run.result() == [Failed("The model server cannot be reached.", is_unreachable=True)]


async def test_a_busy_server_is_asked_again_when_it_says(make: Make, model: FakeModel) -> None:
    clock = FakeClock()
    async with asyncio.TaskGroup() as group:
        backend = make(clock=clock)
        run = group.create_task(run_turn(backend, turn_request("FAIL 429 after 7 times 1")))
        await clock.wait_until_sleeping()
        await clock.advance(6.9)
        assert len(model.requests) == 1
        await clock.advance(0.2)
    assert answer_text(run.result()) == "recovered"


async def test_a_busy_server_is_asked_so_often_and_no_more(make: Make, model: FakeModel) -> None:
    backend = make(attempts=2)
    outputs = await run_turn(backend, turn_request("FAIL 503 after 0"))
    assert outputs == [Failed("The model server failed. Try again later.")]
    assert len(model.requests) == 2


@pytest.mark.parametrize("text", ["ENDLESS 1", "SAY begun\nHANG"])
async def test_cancel_closes_the_connection(make: Make, model: FakeModel, text: str) -> None:
    backend = make()
    outputs = backend.start(turn_request(text))
    assert isinstance(await anext(outputs), Text)
    await backend.cancel("run-1")
    assert [output async for output in outputs] == []
    seen = await model.until(lambda seen: seen.outcome != "answering")
    assert seen.outcome == "closed"


async def test_cancel_before_the_first_word(make: Make, model: FakeModel) -> None:
    backend = make()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(run_turn(backend, turn_request("HANG")))
        await model.until(lambda seen: seen.text == "HANG")
        await backend.cancel("run-1")
    assert run.result() == []
    await model.until(lambda seen: seen.outcome == "closed")


async def test_a_reader_that_leaves_closes_the_connection(make: Make, model: FakeModel) -> None:
    outputs = make().start(turn_request("ENDLESS 1"))
    await anext(outputs)
    await outputs.aclose()  # type: ignore[attr-defined]
    await model.until(lambda seen: seen.outcome == "closed")


class Search:
    """A tool that finds what it is asked for, in a while."""

    definition = ToolDefinition(
        name="search",
        title="Search",
        description="Finds things.",
        input_schema={"type": "object", "properties": {"query": {"type": "string"}}},
    )

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.is_closed = False
        self.hangs = asyncio.Event()
        self.was_canceled = False

    async def call(
        self, arguments: Any, *, turn: TurnRequest, on_update: Callable[[Any], None]
    ) -> ToolResult:
        self.calls.append((arguments, turn.principal))
        match arguments.get("query"):
            case "crash":
                raise RuntimeError("a secret of the tool")
            case "hang":
                self.hangs.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.was_canceled = True
                    raise
            case "nothing":
                return ToolResult({"error": "nothing there"}, is_error=True)
            case "slow":
                on_update({"percent": 50})
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            case "busy":
                for number in range(1000):
                    on_update({"number": number})
                await asyncio.sleep(0.1)
            case "much":
                return ToolResult("x" * 100_000)
            case _:
                pass
        return ToolResult({"found": arguments.get("query")})

    async def close(self) -> None:
        self.is_closed = True


def calls_of(outputs: list[Output]) -> list[tuple[str, Any, bool]]:
    called = [output for output in outputs if isinstance(output, ToolCalled)]
    return [(output.phase, output.data, output.is_error) for output in called]


async def test_a_tool(make: Make, model: FakeModel) -> None:
    tool = Search()
    backend = make(tools=(tool,))
    text = 'SAY looking\nTOOL search {"query": "walrus"}'
    outputs = await run_turn(backend, turn_request(text))
    assert outputs[0] == Text("looking")
    assert calls_of(outputs) == [
        ("start", {"query": "walrus"}, False),
        ("result", {"found": "walrus"}, False),
    ]
    assert outputs[3:5] == [StageStarted(), Text('search gave: {"found":"walrus"}\n')]
    assert tool.calls == [({"query": "walrus"}, "tester")]
    offered = model.requests[0].body["tools"][0]["function"]
    assert offered == {
        "name": "search",
        "description": "Finds things.",
        "parameters": Search.definition.input_schema,
    }
    second = model.requests[1].body["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "tool"]
    assert second[1]["tool_calls"][0]["id"] == second[2]["tool_call_id"]
    final = outputs[-1]
    assert isinstance(final, Final)
    # Both requests count.
    assert (final.metadata or {})["usage"]["outputTokens"] == 5
    await backend.close()
    assert tool.is_closed


async def test_tools_side_by_side(make: Make) -> None:
    text = 'TOOL search {"query": "a"}\nTOOL search {"query": "slow"}'
    outputs = await run_turn(make(tools=(Search(),)), turn_request(text))
    ids = {output.call_id for output in outputs if isinstance(output, ToolCalled)}
    assert len(ids) == 2
    assert ("update", {"percent": 50}, False) in calls_of(outputs)
    assert answer_text(outputs) == 'search gave: {"found":"a"}\nsearch gave: {"found":"slow"}\n'


async def test_updates_that_nobody_had_time_to_read_give_way_to_the_latest(make: Make) -> None:
    text = 'TOOL search {"query": "busy"}'
    outputs = await run_turn(make(tools=(Search(),)), turn_request(text))
    updates = [data for phase, data, _ in calls_of(outputs) if phase == "update"]
    assert updates == [{"number": 999}]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('search {"query": "nothing"}', "nothing there"),
        ('search {"query": "crash"}', "The tool failed."),
        ("hammer", "There is no tool 'hammer'. Tools: search."),
    ],
)
async def test_a_tool_that_fails_is_for_the_model_to_make_up_for(
    make: Make, call: str, told: str
) -> None:
    outputs = await run_turn(make(tools=(Search(),)), turn_request(f"TOOL {call}"))
    assert calls_of(outputs)[-1] == ("result", {"error": told}, True)
    assert told in answer_text(outputs)
    assert isinstance(outputs[-1], Final)


async def test_a_result_that_is_too_long_is_cut(make: Make, model: FakeModel) -> None:
    text = 'TOOL search {"query": "much"}'
    await run_turn(make(tools=(Search(),)), turn_request(text))
    result = model.requests[1].body["messages"][-1]["content"]
    assert result.endswith("[cut off: the result is 100000 characters long]")
    assert len(result) < 70_000


async def test_a_model_that_only_calls_tools_is_stopped(make: Make, model: FakeModel) -> None:
    backend = make(tools=(Search(),), max_tool_rounds=3)
    outputs = await run_turn(backend, turn_request("AGAIN search"))
    assert outputs[-1] == Failed(
        "The model called tools 3 times in a row without coming to an answer."
    )
    assert len(model.requests) == 4
    started = [o.call_id for o in outputs if isinstance(o, ToolCalled) and o.phase == "start"]
    assert len(set(started)) == 3


async def test_cancel_reaches_the_tool(make: Make) -> None:
    tool = Search()
    backend = make(tools=(tool,))
    async with asyncio.TaskGroup() as group:
        text = 'TOOL search {"query": "hang"}'
        run = group.create_task(run_turn(backend, turn_request(text)))
        await tool.hangs.wait()
        await backend.cancel("run-1")
    assert tool.was_canceled
    assert all(not isinstance(output, Failed) for output in run.result())


async def test_the_doctor(model: FakeModel) -> None:
    async def levels(**changes: Any) -> list[str]:
        return [f.level for f in await check(settings_of(model, **changes), RESOURCES)]

    assert await levels() == ["ok", "ok"]
    assert await levels(model="fake-9") == ["ok", "warning"]
    assert await levels(api_key=None) == ["error"]
    assert await levels(base_url="http://127.0.0.1:9/v1") == ["error"]
    assert await levels(base_url=f"{model.url}/wrong") == ["ok", "warning"]


@asynccontextmanager
async def _raw(answer: bytes) -> AsyncIterator[str]:
    """A server that answers with these bytes and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def test_the_doctor_does_not_wait_for_ever() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    [finding] = await check(OpenAISettings(base_url=url, model="m"), RESOURCES, timeout_s=0.2)
    server.close()
    assert finding.level == "error"
    assert finding.what == f"{url} is there, and says nothing for 0.2 s"


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        # Ends without [DONE], and without a reason.
        (
            HEAD + b'text/event-stream\r\n\r\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n',
            Failed("The model server broke off in the middle of its answer."),
        ),
        # Without [DONE], with a reason.
        (
            HEAD + b"text/event-stream\r\n\r\n"
            b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
            Final(),
        ),
        (
            HEAD + b'application/json\r\n\r\n{"choices":[]}',
            Failed("The model server sent something that is not an answer."),
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            Failed("The model server sent something that is not an answer."),
        ),
        (
            HEAD + b"text/event-stream\r\n\r\n"
            b'data: {"choices":[{"delta":{"refusal":"No."},"finish_reason":"stop"}]}\n\n',
            Refused("No."),
        ),
        (
            HEAD + b"text/event-stream\r\n\r\ndata:\n\n"
            b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
            Final(),
        ),
        (b"SSH-2.0-OpenSSH\r\n", Failed("The model server sent something that is not an answer.")),
    ],
    ids=["no end", "no done", "no choice", "redirect", "refusal", "nothing", "no http"],
)
async def test_odd_servers(make: Make, answer: bytes, end: Output) -> None:
    async with _raw(answer) as url:
        outputs = await run_turn(make(base_url=url), turn_request("hi"))
    assert outputs[-1] == end
