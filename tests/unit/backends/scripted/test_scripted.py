import asyncio
from typing import Any

import pytest

from trunkline import Artifact, Part
from trunkline.model.errors import ConfigError
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
    ToolCalled,
    ToolSummarized,
)
from trunkline.model.recordings import RecordedStep, RecordedTurn, Recording
from trunkline.settings import from_document
from trunkline.testing import (
    FakeClock,
    ScriptedBackend,
    answer_text,
    run_turn,
    settle,
    turn_request,
)


async def run(script: str) -> list[Output]:
    return await run_turn(ScriptedBackend(clock=FakeClock()), turn_request(script))


def parts(text: str) -> tuple[Part, ...]:
    return (Part(text=text),)


@pytest.mark.parametrize(
    ("script", "outputs"),
    [
        ("hello there", [Final(parts("hello there"))]),
        ("sayonara; say x", [Final(parts("sayonara; say x"))]),
        ("say a; say b", [Text("a"), Text("b")]),
        ("say a; b\nunknown line", [Text("a; b"), Text("unknown line")]),
        ("stream 3", [Text("1 "), Text("2 "), Text("3 ")]),
        ("say a; replace b", [Text("a"), TextReplaced("b")]),
        ("preview a; preview ab", [TextPreview("a"), TextPreview("ab")]),
        ("block a; stage-end b", [Block(parts("a")), StageEnded(parts("b"))]),
        ("say a; stage; say b", [Text("a"), StageStarted(), Text("b")]),
        ("summary two hits", [ToolSummarized(parts("two hits"))]),
        ('parts [{"text": "a"}, {"data": 1}]; say late', [Final((*parts("a"), Part(data=1)))]),
        ("parts [{}]", [Failed]),
        ("parts nothing", [Failed]),
        ("tool-event start", [Failed]),
        ("note busy", [Note(parts("busy"))]),
        ("say draft; final done; say late", [Text("draft"), Final(parts("done"))]),
        ("ask Which?; say late", [Question(parts("Which?"))]),
        ("auth Sign in", [AuthNeeded(parts("Sign in"))]),
        ("reply hi", [DirectReply(parts("hi"))]),
        ("refuse no", [Refused("no")]),
        ("fail broken", [Failed("broken")]),
        ("show principal", [Final((Part(data="tester"),))]),
        ("show colour", [Failed]),
        ("delay soon", [Failed("delay: 'soon' is not a number")]),
        ("tool x {", [Failed]),
        ("artifact film x", [Failed]),
        ("artifact text x", [Failed]),
    ],
    ids=str,
)
async def test_commands(script: str, outputs: list[Output | type]) -> None:
    got = await run(script)
    assert [type(g) if isinstance(o, type) else g for g, o in zip(got, outputs, strict=True)] == (
        outputs
    )


@pytest.mark.parametrize(
    ("script", "name", "part"),
    [
        ("artifact text a some words", "a", Part(text="some words")),
        (
            "artifact file a.csv text/csv 1;2",
            "a.csv",
            Part(raw=b"1;2", media_type="text/csv", filename="a.csv"),
        ),
        (
            "artifact url a.png image/png https://x.test/a",
            "a.png",
            Part(url="https://x.test/a", media_type="image/png", filename="a.png"),
        ),
        ('artifact data {"a": 1}', "data", Part(data={"a": 1})),
    ],
)
async def test_artifacts(script: str, name: str, part: Part) -> None:
    assert await run(script) == [
        ArtifactEmitted(artifact=Artifact(artifact_id=name, name=name, parts=(part,)))
    ]


async def test_chunks_and_tools() -> None:
    chunks = await run("chunks log 3")
    assert all(isinstance(chunk, ArtifactEmitted) for chunk in chunks)
    assert [(c.append, c.last_chunk) for c in chunks if isinstance(c, ArtifactEmitted)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    start, result = await run('tool search {"q": 1}')
    assert start == ToolCalled(call_id="call-search", name="search", phase="start", data={"q": 1})
    assert isinstance(result, ToolCalled)
    assert result.phase == "result"


@pytest.mark.parametrize(
    ("script", "phase", "data", "is_error"),
    [
        ("tool-event start search", "start", None, False),
        ('tool-event update search {"done": 0.5}', "update", {"done": 0.5}, False),
        ("tool-event result search [1]", "result", [1], False),
        ('tool-event error search "no"', "result", "no", True),
    ],
)
async def test_one_phase_of_a_tool(script: str, phase: str, data: object, is_error: bool) -> None:
    assert await run(script) == [
        ToolCalled(call_id="call-search", name="search", phase=phase, data=data, is_error=is_error)
    ]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("say a; say b", "ab"),
        ("say a; stage; block b; block c; stage", "b\n\nc"),
        ("say a; stage-end whole", "whole"),
        ("preview a; preview ab; final c", "c"),
        ("stage", ""),
    ],
)
async def test_the_answer_is_the_newest_message_with_text(script: str, text: str) -> None:
    assert answer_text(await run(script)) == text


async def test_time_is_the_clocks() -> None:
    clock = FakeClock()
    backend = ScriptedBackend(clock=clock)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_turn(backend, turn_request("delay 5; stream 2 every 1")))
        await clock.advance(6.5)
        assert not task.done()
        await clock.advance(0.5)
    assert task.result() == [Text("1 "), Text("2 ")]


async def test_gates_order_two_runs() -> None:
    backend = ScriptedBackend(clock=FakeClock())
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(run_turn(backend, turn_request("wait a; say through")))
        await backend.gates.reached("a")
        assert not waiting.done()
        await run_turn(backend, turn_request("open a", run_id="run-2"))
    assert waiting.result() == [Text("through")]
    assert [turn.run_id for turn in backend.turns] == ["run-1", "run-2"]


async def test_ignore_cancel_lets_late_output_through() -> None:
    backend = ScriptedBackend(clock=FakeClock())
    outputs = backend.start(turn_request("ignore-cancel; say a; wait gate; say late"))
    assert await anext(outputs) == Text("a")
    async with asyncio.TaskGroup() as group:
        rest = group.create_task(run_rest(outputs))
        await backend.gates.reached("gate")
        await backend.cancel("run-1")
        await settle()
        assert not rest.done()
        backend.gates.open("gate")
    assert rest.result() == [Text("late")]
    assert list(backend.canceled) == ["run-1"]


async def run_rest(outputs: object) -> list[Output]:
    assert hasattr(outputs, "__aiter__")
    return [output async for output in outputs]


RECORDING = Recording(
    turns=(
        RecordedTurn(
            steps=(
                RecordedStep(said=parts("reading")),
                RecordedStep(
                    after_ms=1500,
                    artifact=Artifact(artifact_id="a", parts=parts("x")),
                    append=True,
                    last_chunk=True,
                ),
                RecordedStep(said=parts("which?"), ending="input"),
                RecordedStep(said=parts("never played"), ending="completed"),
            )
        ),
        RecordedTurn(
            steps=(RecordedStep(said=parts("done"), metadata={"a": 1}, ending="completed"),)
        ),
    )
)


async def test_a_recording_is_played_turn_by_turn_whatever_the_message_says() -> None:
    clock = FakeClock()
    backend = ScriptedBackend(clock=clock, recording=RECORDING)
    async with asyncio.TaskGroup() as group:
        run = group.create_task(run_turn(backend, turn_request("crash")))
        await clock.wait_until_sleeping()
        await clock.advance(1.5)
    artifact = Artifact(artifact_id="a", parts=parts("x"))
    assert run.result() == [
        Note(parts("reading")),
        ArtifactEmitted(artifact=artifact, append=True, last_chunk=True),
        Question(parts("which?")),
    ]
    asked = turn_request("crash").message
    for history in ((asked,), (asked, asked, asked)):
        again = await run_turn(backend, turn_request("crash", history=history))
        assert again == [Final(metadata={"a": 1}, said=parts("done"))]


@pytest.mark.parametrize(
    ("ending", "output"),
    [
        ("failed", Failed("x")),
        ("rejected", Refused("x")),
        ("auth", AuthNeeded(parts("x"))),
        ("canceled", Failed("The recorded task was canceled here")),
    ],
)
async def test_the_ends_of_recorded_turns(ending: Any, output: Output) -> None:
    turn = RecordedTurn(steps=(RecordedStep(said=parts("x"), ending=ending),))
    backend = ScriptedBackend(clock=FakeClock(), recording=Recording(turns=(turn,)))
    assert await run_turn(backend, turn_request("hello")) == [output]


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"turns": []}', '{"turns": [{"steps": [{"ending": 1}]}]}']
)
def test_a_text_that_is_no_recording_is_a_bad_setting(text: str) -> None:
    with pytest.raises(ConfigError, match="recording"):
        from_document(
            {
                "store": {"kind": "memory"},
                "agents": {
                    "a/b": {"name": "B", "backend": {"kind": "scripted", "recording": text}}
                },
            },
            environment={},
        )
