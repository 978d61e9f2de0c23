"""Programs that misbehave, and what a caller is told: each ends in the right state."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.trials import WARDEN, children_of, is_running
from tests.programs import backends as make

from trunkline.backends.command.backend import CommandBackend
from trunkline.backends.command.doctor import check
from trunkline.backends.command.settings import CommandBackend as CommandSettings
from trunkline.backends.kind import Resources
from trunkline.clock import SystemClock
from trunkline.model.outputs import Failed, Final, Note, Output, StageStarted, Text, ToolCalled
from trunkline.model.values import Part
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.testing import FakeClock, FakeSession, answer_text, run_turn, turn_request

Make = Callable[..., CommandBackend]
COMMANDS = {name: made for name, made in make.MAKE.items() if name != "acp"}


async def said(backend: Backend, *content: str | Part, **fields: object) -> list[Output]:
    try:
        return await run_turn(backend, turn_request(*content, **fields))
    finally:
        await backend.close()


def reason(outputs: list[Output]) -> str:
    last = outputs[-1]
    assert isinstance(last, Failed), outputs
    return last.reason


async def test_a_program_that_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    settings = CommandSettings(command=("no-such-program-here",))
    backend = CommandBackend(settings, clock=SystemClock())
    told = reason(await said(backend, "hi"))
    assert told.startswith("The agent's program could not be started.")
    assert "no-such-program-here" not in told
    assert "there is no program no-such-program-here" in caplog.text


async def test_a_folder_that_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    settings = CommandSettings(command=("cat",), cwd="/no/such/folder")
    backend = CommandBackend(settings, clock=SystemClock())
    assert "could not be started" in reason(await said(backend, "hi"))
    assert "there is no folder /no/such/folder" in caplog.text


async def test_a_file_that_is_no_program(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "noise"
    file.write_bytes(b"\x00\x01 this runs nowhere")
    file.chmod(0o755)
    backend = CommandBackend(CommandSettings(command=(str(file),)), clock=SystemClock())
    assert "could not be started" in reason(await said(backend, "hi"))
    assert "Exec format error" in caplog.text


async def test_stderr_is_for_the_operator_and_secrets_are_for_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outputs = await said(make.text(own={"TOKEN": "hush-hush"}), "exit 3")
    assert outputs == [Text("so far"), Failed("The agent's program failed with exit code 3.")]
    [record] = [r for r in caplog.records if r.name == "trunkline.command"]
    assert record.__dict__["stderr"] == "what the operator should know, token=***"
    assert record.__dict__["exit_code"] == 3
    assert record.__dict__["run_id"] == "run-1"
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_program_that_fails(name: str) -> None:
    assert reason(await said(COMMANDS[name](), "exit 7")) == (
        "The agent's program failed with exit code 7."
    )


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_program_that_is_killed(name: str) -> None:
    assert reason(await said(COMMANDS[name](), "die")) == (
        "The agent's program was ended by SIGKILL before it had finished."
    )


async def test_a_flood() -> None:
    outputs = await said(make.text(max_output_bytes=1024 * 1024), "flood")
    assert reason(outputs) == "The agent said more than the 1 MiB that it may, so it was stopped."
    heard = sum(len(output.delta) for output in outputs if isinstance(output, Text))
    assert heard <= 1024 * 1024


async def test_a_line_without_end() -> None:
    told = reason(await said(make.claude(max_line_bytes=10_000), "line 20000"))
    assert told.startswith("The agent wrote a line of more than 9.76562 KiB")


async def test_a_program_that_closes_its_output_and_stays() -> None:
    clock = FakeClock()
    backend = make.text(clock=clock)
    outputs = asyncio.create_task(run_turn(backend, turn_request("close")))
    # The time of the turn, and then that of its end.
    await clock.wait_until_sleeping(2)
    await clock.advance(5)
    # It does not mind the polite signal's grace: it dies of it.
    assert reason(await outputs) == (
        "The agent's program closed its output but did not end, so it was stopped."
    )
    await backend.close()


async def test_a_program_that_never_ends() -> None:
    clock = FakeClock()
    backend = make.text(clock=clock, timeout_s=30, stop_grace_s=1)
    outputs = backend.start(turn_request("hang"))
    assert await anext(outputs) == Text("begun\n")
    await clock.advance(31)
    assert [output async for output in outputs] == [
        Failed("The agent did not finish within 30 s, so it was stopped.")
    ]
    await backend.close()


async def test_a_program_that_ignores_the_polite_signal() -> None:
    backend = make.text(stop_grace_s=0.1)
    turn = turn_request("stubborn")
    outputs = backend.start(turn)
    await anext(outputs)
    await backend.cancel(turn.run_id)
    assert [output async for output in outputs] == []
    await backend.close()


@pytest.mark.parametrize("leaves", [True, False])
async def test_what_a_program_started_ends_with_it(leaves: bool) -> None:
    backend = make.text()
    turn = turn_request("family leave" if leaves else "family")
    outputs = backend.start(turn)
    first = await anext(outputs)
    assert isinstance(first, Text)
    own, child = map(int, first.delta.split())
    if leaves:
        assert [output async for output in outputs] == [Final()]
    else:
        assert is_running(own)
        assert is_running(child)
        await backend.cancel(turn.run_id)
    await eventually(lambda: _gone(own, child))
    await backend.close()


async def _gone(*pids: int) -> bool:
    return not any(map(is_running, pids))


async def test_closing_leaves_no_process_behind() -> None:
    backend = make.text()
    outputs = backend.start(turn_request("family"))
    first = await anext(outputs)
    assert isinstance(first, Text)
    await backend.close()
    await eventually(lambda: _gone(*map(int, first.delta.split())))
    told = reason(await run_turn(backend, turn_request("hi", run_id="run-2")))
    assert "could not be started" in told


async def test_nothing_of_the_environment_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_SECRET", "hush")
    outputs = await said(make.text(home="/tmp", own={"OWN": "given"}), "env")
    names = dict(line.split("=", 1) for line in answer_text(outputs).splitlines())
    # Python sets LC_CTYPE for itself.
    assert set(names) - {"LC_CTYPE"} == {
        "HOME",
        "OWN",
        "PATH",
        "TRUNKLINE_SESSION",
        "TRUNKLINE_TASK",
    }
    assert names["OWN"] == "given"


async def test_characters_are_not_cut() -> None:
    outputs = await said(make.text(), "cut Füße 🦭 — ende")
    assert answer_text(outputs) == "Füße 🦭 — ende"
    assert not any("�" in o.delta for o in outputs if isinstance(o, Text))


async def test_memory_is_limited() -> None:
    argv = (sys.executable, str(make.FOLDER / "talk.py"))
    limited = CommandSettings(command=argv, max_memory_bytes=200_000_000)
    backend = CommandBackend(limited, clock=SystemClock())
    assert "exit code 1" in reason(await said(backend, "eat 1000000000"))
    backend = CommandBackend(limited, clock=SystemClock())
    assert answer_text(await said(backend, "eat 1000")) == "1000"


async def test_the_message_in_an_argument_is_no_option() -> None:
    outputs = await said(make.text("--prompt", "{prompt}"), "--end of the world")
    assert answer_text(outputs) == "You said --end of the world"
    told = reason(await said(make.text("--prompt", "{prompt}"), "x" * 200_000))
    assert told.startswith("The message is too long for this agent")


async def test_files_of_a_message(tmp_path: Path) -> None:
    parts = (
        Part(raw=b"a,b\n1,2\n", filename="../../t.csv", media_type="text/csv"),
        Part(raw=b"\x89PNG", filename="../../etc/a b.png", media_type="image/png"),
        Part(raw=b"\x00", filename="a b.png", media_type="application/x-thing"),
    )
    told = reason(await said(make.text(), "files", *parts))
    assert told == "The agent takes no files of the type image/png."
    text = answer_text(await said(make.text(files="folder"), "files", *parts))
    assert "('a b.png', b'\\x89PNG', '0o40700'), ('2-a b.png', b'\\x00', '0o40700')" in text
    folder = text.rpartition("['")[2].partition("'")[0]
    assert not is_there(folder)
    inlined = answer_text(await said(make.text(), "see", parts[0]))
    assert inlined == "You said see\n\nFile t.csv:\n```\na,b\n1,2\n```"


def is_there(path: str) -> bool:
    return Path(path).exists()


async def test_too_many_at_once() -> None:
    backend = make.text(max_processes=1)
    outputs = backend.start(turn_request("hang"))
    await anext(outputs)
    told = reason(await run_turn(backend, turn_request("hi", run_id="run-2")))
    assert told.startswith("The agent is busy: it runs 1 programs at a time")
    await backend.cancel("run-1")
    assert answer_text(await run_turn(backend, turn_request("hi", run_id="run-3")))
    await backend.close()


class Talk:
    """Turns of one session, one after the other."""

    def __init__(self, backend: Backend, *, session: FakeSession | None = None) -> None:
        self.backend = backend
        self.session = session or FakeSession()
        self._number = 0

    def turn(self, *content: str | Part, **fields: object) -> TurnRequest:
        self._number += 1
        named = {"run_id": f"run-{self._number}", "session": self.session}
        return turn_request(*content, **named | fields)

    async def say(self, *content: str | Part, **fields: object) -> str:
        return answer_text(await run_turn(self.backend, self.turn(*content, **fields)))


@pytest.mark.parametrize("name", ["claude", "claude-kept", "codex"])
async def test_a_session_is_resumed(name: str, tmp_path: Path) -> None:
    session = FakeSession()
    talk = Talk(COMMANDS[name](home=tmp_path), session=session)
    await talk.say("one")
    await talk.say("two")
    assert await talk.say("history") == "one | two | history"
    # Another caller with the same context gets nowhere near it.
    assert await talk.say("history", principal="mallory", session=FakeSession()) == "history"
    await talk.backend.close()
    # After a restart.
    talk = Talk(COMMANDS[name](home=tmp_path), session=session)
    assert await talk.say("history") == "one | two | history | history"
    await talk.backend.close()


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_a_session_that_the_program_has_forgotten_begins_anew(
    name: str, tmp_path: Path
) -> None:
    talk = Talk(COMMANDS[name](home=tmp_path))
    await talk.say("one")
    for file in (tmp_path / f"fake-{name}").iterdir():
        file.unlink()
    assert await talk.say("history") == "history"
    assert await talk.say("history") == "history | history"
    await talk.backend.close()


async def test_a_session_that_only_the_program_remembers(tmp_path: Path) -> None:
    talk = Talk(make.claude(home=tmp_path))
    await talk.say("one")
    assert await talk.say("history", session=FakeSession()) == "one | history"
    await talk.backend.close()


async def test_a_process_is_kept_for_its_session(tmp_path: Path) -> None:
    talk = Talk(make.kept_claude(home=tmp_path))
    first = await talk.say("pid")
    assert await talk.say("pid") == first
    assert await talk.say("pid", context_id="another", session=FakeSession()) != first
    # It ended while nobody looked: there is a new one, with the same session.
    os.kill(int(first), 9)
    await eventually(lambda: _gone(int(first)))
    assert await talk.say("history") == "pid | pid | history"
    await talk.backend.close()


async def test_a_process_that_is_kept_goes_when_it_is_idle_or_in_the_way() -> None:
    clock = FakeClock()
    talk = Talk(make.kept_claude(clock=clock, max_processes=2))
    first = int(await talk.say("pid", context_id="1"))
    second = int(await talk.say("pid", context_id="2"))
    third = int(await talk.say("pid", context_id="3"))
    assert [is_running(pid) for pid in (first, second, third)] == [False, True, True]
    assert int(await talk.say("pid", context_id="2")) == second
    await clock.advance(61)
    await eventually(lambda: _gone(second, third))
    await talk.backend.close()


async def test_an_interrupted_claude_is_kept(tmp_path: Path) -> None:
    talk = Talk(make.kept_claude(home=tmp_path))
    pid = await talk.say("pid")
    turn = talk.turn("hang")
    outputs = talk.backend.start(turn)
    await anext(outputs)
    await talk.backend.cancel(turn.run_id)
    assert await talk.say("pid") == pid
    turn = talk.turn("hang stubborn")
    outputs = talk.backend.start(turn)
    await anext(outputs)
    await talk.backend.cancel(turn.run_id)
    assert not is_running(int(pid))
    assert "hang stubborn" in await talk.say("history")
    await talk.backend.close()


async def test_text_in_a_process_that_is_kept() -> None:
    talk = Talk(make.kept_text())
    assert await talk.say("count") == "1"
    assert await talk.say("count") == "2"
    assert await talk.say("two\nlines") == "You said two\nlines"
    outputs = await run_turn(talk.backend, talk.turn("a\n.\nb"))
    assert reason(outputs) == "The message holds a line that this agent takes for its end."
    assert await talk.say("count") == "4"
    await talk.backend.close()


async def test_a_process_that_is_kept_fails_once() -> None:
    talk = Talk(make.kept_text())
    assert await talk.say("count") == "1"
    outputs = await run_turn(talk.backend, talk.turn("exit 3"))
    assert outputs == [Text("so far"), Failed("The agent's program failed with exit code 3.")]
    assert await talk.say("count") == "1"
    await talk.backend.close()


async def test_a_program_that_can_neither_begin_nor_go_on(tmp_path: Path) -> None:
    stubborn = tmp_path / "claude"
    stubborn.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--resume*) echo "No conversation found" >&2 ;;'
        ' *) echo "already in use" >&2 ;; esac\nexit 1\n'
    )
    stubborn.chmod(0o755)
    settings = CommandSettings(command=(str(stubborn),), format="claude")
    outputs = await said(CommandBackend(settings, clock=SystemClock()), "hi")
    assert outputs == [Failed("The agent's program failed with exit code 1.")]


async def test_the_warden_is_replaced_when_somebody_ends_it() -> None:
    backend = make.text()
    outputs = backend.start(turn_request("hang"))
    await anext(outputs)
    [warden] = wardens()
    os.kill(warden, 9)
    await eventually(lambda: _gone(warden))
    numbers = count(2)

    async def is_replaced() -> bool:
        # With the first child that starts after the loop has noticed, which takes a moment.
        turn = turn_request("hi", run_id=f"run-{next(numbers)}")
        assert answer_text(await run_turn(backend, turn))
        return bool(wardens())

    await eventually(is_replaced)
    [another] = wardens()
    assert another != warden
    await backend.close()
    assert wardens() == []


def wardens() -> list[int]:
    """Those that this process has started."""
    children = children_of(os.getpid())
    return [pid for pid, command in children if WARDEN in command and is_running(pid)]


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_what_is_no_json_is_passed_over(name: str) -> None:
    assert answer_text(await said(COMMANDS[name](), "garbage")) == "all the same"


@pytest.mark.parametrize("name", ["claude", "codex"])
async def test_several_messages_are_kept_apart(name: str) -> None:
    outputs = await said(COMMANDS[name](), "two")
    texts = [o.delta if isinstance(o, Text) else "|" for o in outputs if not isinstance(o, Final)]
    assert "".join(texts) == "first thoughts|the answer"
    assert StageStarted() in outputs


@pytest.mark.parametrize(("name", "tool"), [("claude", "Bash"), ("codex", "shell")])
async def test_tools(name: str, tool: str) -> None:
    outputs = await said(COMMANDS[name](), "tool")
    calls = [(o.name, o.phase) for o in outputs if isinstance(o, ToolCalled)]
    assert calls == [(tool, "start"), (tool, "result")]


async def test_usage_is_told() -> None:
    for backend, usage in (
        (make.claude(), {"inputTokens": 11, "outputTokens": 3, "costUsd": 0.5}),
        (make.codex(), {"inputTokens": 9, "outputTokens": 2, "cacheReadTokens": 1}),
    ):
        last = (await said(backend, "hi"))[-1]
        assert isinstance(last, Final)
        assert last.metadata == {"usage": usage}


async def test_what_only_claude_does() -> None:
    assert answer_text(await said(make.claude(), "whole")) == "not streamed"
    assert reason(await said(make.claude(), "steps")).startswith("The agent stopped: it had used")
    assert reason(await said(make.claude(), " ")) == "The message is empty."
    image = Part(raw=b"\x89PNG", media_type="image/png")
    assert answer_text(await said(make.claude(), "kinds", image)) == "image,text"


async def test_a_plan_of_codex_is_a_note() -> None:
    outputs = await said(make.codex(), "plan")
    assert Note((Part(text="[ ] think"),)) in outputs


async def test_the_doctor_looks_at_the_program() -> None:
    resources = Resources(clock=SystemClock(), data_dir=Path())
    found = await check(CommandSettings(**make.program("fake_claude.py")), resources)
    assert [finding.level for finding in found] == ["ok"]
    missing = CommandSettings(command=("no-such-program",), format="claude")
    [finding] = await check(missing, resources)
    assert finding.level == "error"
    assert finding.what == "there is no program no-such-program that can be run"
    python = CommandSettings(command=(sys.executable,), format="claude")
    found = await check(python, resources)
    assert found[-1].what.endswith("says Python " + sys.version.split()[0])


async def test_the_doctor_says_that_tools_over_mcp_need_a_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resources = Resources(clock=SystemClock(), data_dir=Path())
    settings = CommandSettings(command=(sys.executable,), format="claude", tools=("agent_call",))
    assert [each.level for each in await check(settings, resources)] == ["ok", "ok"]
    monkeypatch.setattr("trunkline.backends.programs.program.find_spec", lambda _: None)
    found = await check(settings, resources)
    assert [each.level for each in found] == ["ok", "ok", "error"]
    assert "trunkline[mcp]" in found[-1].remedy
