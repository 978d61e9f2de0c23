"""An agent that speaks ACP: what it says, what it asks, and how it goes wrong."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.test_command import Talk, reason, said
from tests.acceptance.trials import is_running
from tests.programs import backends as make

from trunkline.backends.acp.backend import AcpBackend
from trunkline.backends.acp.doctor import check
from trunkline.backends.acp.settings import AcpBackend as AcpSettings
from trunkline.backends.acp.updates import DENIED
from trunkline.backends.kind import Resources
from trunkline.clock import SystemClock
from trunkline.model.outputs import (
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    StageStarted,
    Text,
    ToolCalled,
)
from trunkline.model.values import Message, Part, Role, text_of
from trunkline.ports.backend import Finding
from trunkline.testing import FakeClock, FakeSession, answer_text, run_turn, turn_request

ASKED = (Message(message_id="asked", role=Role.USER, parts=(Part(text="ask"),)),)


def question_of(outputs: list[Output]) -> Question:
    last = outputs[-1]
    assert isinstance(last, Question), outputs
    return last


async def test_a_turn() -> None:
    outputs = await said(make.acp(), "hello")
    usage = {"inputTokens": 11, "outputTokens": 3, "totalTokens": 14}
    assert outputs == [Text("You said hello"), Final(metadata={"usage": usage})]


async def test_tools_plans_and_messages() -> None:
    outputs = await said(make.acp(), "tool")
    calls = [(o.name, o.phase, o.data) for o in outputs if isinstance(o, ToolCalled)]
    assert calls == [
        ("Bash", "start", {"title": "Terminal"}),
        ("Bash", "update", {"title": "echo hi", "rawInput": {"command": "echo hi"}}),
        ("Bash", "result", "hi"),
    ]
    [result] = [
        o for o in await said(make.acp(), "broken") if isinstance(o, ToolCalled) and o.is_error
    ]
    assert result.phase == "result"
    assert Note((Part(text="[x] think\n[ ] act"),)) in await said(make.acp(), "plan")
    outputs = await said(make.acp(), "two")
    assert outputs[:3] == [Text("first thoughts"), StageStarted(), Text("the answer")]


async def test_the_tools_of_the_gateway_are_an_mcp_server_of_the_session() -> None:
    lender = make.Lender()
    backend = make.acp(tools=("agent_call",), lends_tools=lender)
    try:
        first = await run_turn(backend, turn_request("servers", run_id="run-1"))
        # The process is kept, and so is its token.
        await run_turn(backend, turn_request("hello", run_id="run-2"))
        await run_turn(backend, turn_request("hello", run_id="run-3", context_id="c2"))
    finally:
        await backend.close()
    (server,) = json.loads(answer_text(first))
    assert server == {
        "type": "http",
        "name": "trunkline",
        "url": "http://127.0.0.1:9/tools/mcp",
        "headers": [{"name": "Authorization", "value": "Bearer 0_loot_lt"}],
    }
    assert lender.lent == [("run-1", "tl_tool_0"), ("run-2", "tl_tool_0"), ("run-3", "tl_tool_2")]
    assert lender.ended == 3


async def test_an_agent_that_takes_no_mcp_over_http_gets_no_server() -> None:
    backend = make.acp("--no-mcp", tools=("agent_call",), lends_tools=make.Lender())
    assert answer_text(await said(backend, "servers")) == "[]"
    without = make.acp(lends_tools=make.Lender())
    assert answer_text(await said(without, "servers")) == "none"


async def test_the_tools_count_again_in_the_turn_with_the_answer_to_a_question() -> None:
    lender = make.Lender()
    backend = make.acp(tools=("agent_call",), lends_tools=lender)
    try:
        question_of(await run_turn(backend, turn_request("ask", run_id="run-1")))
        assert lender.ended == 1
        answer = turn_request("Yes", run_id="run-2", history=ASKED)
        assert "you chose" in answer_text(await run_turn(backend, answer))
    finally:
        await backend.close()
    assert lender.lent == [("run-1", "tl_tool_0"), ("run-2", "tl_tool_0")]


async def test_how_a_turn_may_end() -> None:
    assert (await said(make.acp(), "refuse"))[-1] == Refused("The agent refused to do this.")
    last = (await said(make.acp(), "long"))[-1]
    assert isinstance(last, Final)
    assert last.metadata is not None
    assert last.metadata["stopReason"] == "max_tokens"
    assert "its model answered with an error" in reason(await said(make.acp(), "fail"))
    assert answer_text(await said(make.acp(), "garbage")) == "all the same"
    assert reason(await said(make.acp(), "exit 5")).endswith("exit code 5.")
    assert "SIGKILL" in reason(await said(make.acp(), "die"))
    assert reason(await said(make.acp(), " ")) == "The message is empty."
    limited = make.acp(max_output_bytes=1024 * 1024)
    assert "more than the 1 MiB" in reason(await said(limited, "flood"))


async def test_a_key_that_an_agent_quotes_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    outputs = await said(make.acp(own={"KEY": "sk-nobody-may-see-this"}), "fail")
    assert isinstance(outputs[-1], Failed)
    assert "secret-host ***" in caplog.text
    for record in caplog.records:
        assert "sk-nobody" not in f"{record.getMessage()} {record.__dict__}"


async def test_files() -> None:
    image = Part(raw=b"\x89PNG", media_type="image/png")
    assert answer_text(await said(make.acp(), "kinds", image)) == "image,text"
    other = Part(raw=b"\x00", media_type="application/x-thing")
    told = reason(await said(make.acp(), "kinds", other))
    assert told == "The agent takes no files of the type application/x-thing."


async def test_the_gateways_files_are_not_offered() -> None:
    assert "-32601" in answer_text(await said(make.acp(), "fs"))


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("1", "allow-once"),
        ("Yes", "allow-once"),
        ("allow-once", "allow-once"),
        ("2", "reject"),
        ("no.", "reject"),
        ("whatever", "reject"),
        ("always", "reject"),
    ],
)
async def test_permission_is_asked_for(answer: str, chosen: str) -> None:
    talk = Talk(make.acp())
    asked = question_of(await run_turn(talk.backend, talk.turn("ask make tea")))
    assert text_of(asked.parts) == (
        "The agent asks for permission: make tea\n1. Yes\n2. No\nAnswer with one of them."
    )
    turn = talk.turn(answer, history=ASKED)
    assert answer_text(await run_turn(talk.backend, turn)) == f"you chose {chosen}"
    # And the session goes on.
    assert await talk.say("history", task_id="task-2") == "ask make tea | history"
    await talk.backend.close()


async def test_an_agent_that_gives_up_without_permission() -> None:
    talk = Talk(make.acp())
    await run_turn(talk.backend, talk.turn("ask or stop"))
    assert await run_turn(talk.backend, talk.turn("no", history=ASKED)) == [Failed(DENIED)]
    await talk.backend.close()
    assert (await said(make.acp(permissions="reject"), "ask or stop"))[-1] == Failed(DENIED)


async def test_permission_is_refused_where_nobody_is_to_be_asked() -> None:
    outputs = await said(make.acp(permissions="reject"), "ask")
    assert answer_text(outputs) == "may I? you chose reject"


async def test_a_question_that_nobody_answers() -> None:
    talk = Talk(make.acp())
    pid = await talk.say("pid")
    question_of(await run_turn(talk.backend, turn := talk.turn("ask")))
    other = await run_turn(talk.backend, talk.turn("hello", task_id="task-2"))
    assert reason(other).startswith("The agent waits for an answer in another task")
    await talk.backend.cancel(turn.run_id)
    # The same process again.
    assert await talk.say("pid", task_id="task-3") == pid
    await talk.backend.close()


async def test_an_answer_after_a_restart_is_told_so(tmp_path: Path) -> None:
    session = FakeSession()
    talk = Talk(make.acp(home=tmp_path), session=session)
    await talk.say("one", task_id="task-0")
    question_of(await run_turn(talk.backend, talk.turn("ask")))
    await talk.backend.close()
    talk = Talk(make.acp(home=tmp_path), session=session)
    told = reason(await run_turn(talk.backend, talk.turn("1", history=ASKED)))
    assert told.startswith("The agent was restarted while it waited for this answer")
    # The session itself was loaded again, and what it was told then is not said twice.
    assert await talk.say("history", task_id="task-2") == "one | ask | history"
    await talk.backend.close()


async def test_an_answer_that_comes_too_late() -> None:
    clock = FakeClock()
    talk = Talk(make.acp(clock=clock, question_timeout_s=100))
    pid = int(await talk.say("pid", task_id="task-0"))
    question_of(await run_turn(talk.backend, talk.turn("ask")))
    await clock.advance(101)
    await eventually(lambda: _gone(pid))
    told = reason(await run_turn(talk.backend, talk.turn("1", history=ASKED)))
    assert told.startswith("The agent was restarted")
    await talk.backend.close()


async def test_a_program_that_dies_while_it_waits() -> None:
    talk = Talk(make.acp())
    pid = int(await talk.say("pid", task_id="task-0"))
    question_of(await run_turn(talk.backend, talk.turn("ask")))
    os.kill(pid, 9)
    await eventually(lambda: _gone(pid))
    told = reason(await run_turn(talk.backend, talk.turn("1", history=ASKED)))
    assert told.startswith("The agent was restarted")
    assert int(await talk.say("pid", task_id="task-2")) != pid
    await talk.backend.close()


async def _gone(pid: int) -> bool:
    return not is_running(pid)


async def test_an_agent_that_was_stopped_is_kept_if_it_understands() -> None:
    talk = Talk(make.acp())
    pid = await talk.say("pid")
    for message, is_kept in (("hang", True), ("hang stubborn", False)):
        turn = talk.turn(message)
        outputs = talk.backend.start(turn)
        await anext(outputs)
        await talk.backend.cancel(turn.run_id)
        assert (await talk.say("pid") == pid) is is_kept
    await talk.backend.close()


async def test_sessions_do_not_see_each_other(tmp_path: Path) -> None:
    talk = Talk(make.acp(home=tmp_path))
    await talk.say("one")
    assert await talk.say("history", principal="mallory", session=FakeSession()) == "history"
    assert await talk.say("history") == "one | history"
    await talk.backend.close()


@pytest.mark.parametrize("arguments", [(), ("--no-load",)])
async def test_a_session_after_the_program_has_ended(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    talk = Talk(make.acp(*arguments, home=tmp_path))
    pid = int(await talk.say("pid"))
    os.kill(pid, 9)
    await eventually(lambda: _gone(pid))
    heard = await talk.say("history")
    assert heard == ("history" if arguments else "pid | history")
    await talk.backend.close()


async def test_the_mode_is_set() -> None:
    assert answer_text(await said(make.acp(mode="plan"), "history")) == "mode plan | history"


@pytest.mark.parametrize(
    ("option", "in_log"),
    [
        ("--version-2", "speaks version 2 of the protocol"),
        ("--login", "wants a login first"),
        ("--dies", "cannot find my token"),
    ],
)
async def test_an_agent_that_does_not_get_ready(
    option: str, in_log: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = reason(await said(make.acp(option), "hello"))
    assert told.startswith("The agent's program does not speak as it should.")
    assert in_log in caplog.text + str([r.__dict__.get("stderr") for r in caplog.records])


async def test_an_agent_that_says_nothing_at_the_start() -> None:
    clock = FakeClock()
    backend = make.acp("--mute", clock=clock, start_timeout_s=10)
    outputs = asyncio.create_task(run_turn(backend, turn_request("hello")))
    await clock.wait_until_sleeping(2)
    await clock.advance(11)
    assert reason(await outputs).startswith("The agent's program does not speak as it should.")
    await backend.close()


async def test_an_agent_that_is_missing() -> None:
    backend = AcpBackend(AcpSettings(command=("no-such-agent",)), clock=SystemClock())
    assert isinstance((await said(backend, "hello"))[-1], Failed)


async def test_the_doctor_speaks_with_the_agent() -> None:
    resources = Resources(clock=SystemClock(), data_dir=Path())

    async def found_by(**keys: Any) -> list[Finding]:
        return await check(AcpSettings(**keys), resources)

    [finding] = await found_by(**make.program("fake_acp.py"))
    assert (finding.level, finding.what.endswith("speaks ACP 1")) == ("ok", True)
    found = await found_by(**make.program("fake_acp.py", "--no-load"))
    assert [finding.level for finding in found] == ["ok", "warning"]
    tools = {"tools": ("agent_call",)}
    assert len(await found_by(**make.program("fake_acp.py"), **tools)) == 1
    found = await found_by(**make.program("fake_acp.py", "--no-mcp"), **tools)
    assert [finding.level for finding in found] == ["ok", "warning"]
    [finding] = await found_by(**make.program("fake_acp.py", "--dies"))
    assert finding.level == "error"
    [finding] = await found_by(command=("cat",))
    assert finding.what == "cat does not answer as an ACP agent: it says back what it is told"
    [finding] = await found_by(command=("no-such-agent",))
    assert finding.what == "there is no program no-such-agent that can be run"


def sdk_agent(**options: Any) -> AcpBackend:
    """An agent on the reference implementation, where that is installed."""
    pytest.importorskip("acp")
    return make.acp(script="sdk_acp.py", **options)


async def test_the_reference_implementation_understands_us() -> None:
    talk = Talk(sdk_agent(mode="plan"))
    image = Part(raw=b"\x89PNG", media_type="image/png")
    file = Part(raw=b"\x00", media_type="application/x-thing", filename="a b")
    assert await talk.say("hello", image, file) == "image,resource,text: hello"
    outputs = await run_turn(talk.backend, talk.turn("tool"))
    calls = [(o.name, o.phase, o.data) for o in outputs if isinstance(o, ToolCalled)]
    assert calls[0] == (
        "look",
        "start",
        {"title": "look", "kind": "read", "rawInput": {"path": "a"}},
    )
    assert calls[-1] == ("look", "result", {"lines": 2})
    assert Note((Part(text="[ ] rest"),)) in outputs
    turn = talk.turn("hang")
    running = talk.backend.start(turn)
    await anext(running)
    await talk.backend.cancel(turn.run_id)
    question_of(await run_turn(talk.backend, talk.turn("ask")))
    assert await talk.say("yes", history=ASKED) == "chosen: y"
    question_of(await run_turn(talk.backend, turn := talk.turn("ask")))
    await talk.backend.cancel(turn.run_id)
    await talk.backend.close()
    talk = Talk(sdk_agent(), session=talk.session)
    assert await talk.say("again") == "text: again"
    await talk.backend.close()
