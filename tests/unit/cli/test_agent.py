import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

run = CliRunner().invoke

CONFIG = """
[store]
path = "kept.db"
[agents."test/scripted"]
name = "Scripted"
backend = { kind = "scripted" }
[agents."local/*"]
backend = { kind = "python", target = "code.py" }
[agents."other/broken"]
backend = { kind = "python", target = "broken.py" }
"""
CODE = """
from trunkline import agent

@agent(direct=True)
async def greeter(turn):
    return turn.reply(f"Hello, {turn.text}!")

@agent
async def other(turn):
    return "other"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "broken.py").write_text("import nothing_that_is_there\n")
    return str(tmp_path / "c.toml")


def test_a_turn_with_what_led_to_the_answer(config: str) -> None:
    script = 'note thinking; tool search {"q": 1}; stream 2'
    result = run(app, ["agent", "try", "test/scripted", script, "-c", config, "--verbose"])
    assert result.exit_code == 0
    assert result.stdout == "1 2 \n"
    said = result.stderr.splitlines()
    assert said[:3] == ["· thinking", '→ search  {"q":1}', '← search  {"q":1}']
    assert said[3].startswith("✓ completed  task ")
    assert not (Path(config).parent / "kept.db").exists()
    in_pipe = run(app, ["agent", "try", "test/scripted", script, "-c", config])
    assert (in_pipe.stdout, in_pipe.stderr) == ("1 2 \n", "")


def test_in_a_pipe_only_an_end_that_is_a_problem_is_told(config: str) -> None:
    command = ["agent", "try", "test/scripted", "ask who?", "fail because", "-c", config]
    result = run(app, command)
    assert result.exit_code == 3
    [told] = result.stderr.splitlines()
    assert told.startswith("✗ failed: because  task ")
    assert run(app, [*command, "--quiet"]).stderr == ""


def test_further_texts_are_further_turns(config: str) -> None:
    texts = ["ask who?", "ask me?", "say fine", "show history"]
    result = run(app, ["agent", "try", "test/scripted", *texts, "-c", config, "-o", "json"])
    events = [json.loads(line) for line in result.stdout.splitlines()]
    states = [
        event[name]["status"]["state"].removeprefix("TASK_STATE_")
        for event in events
        for name in ("task", "statusUpdate")
        if name in event
    ]
    turn = ["SUBMITTED", "WORKING"]
    assert [state for state in states if state not in turn] == [
        "INPUT_REQUIRED",
        "INPUT_REQUIRED",
        "COMPLETED",
        "COMPLETED",
    ]
    ids = {event[name].get("taskId") for event in events for name in event if name != "task"}
    assert len(ids) == 2
    contexts = {event[name]["contextId"] for event in events for name in event}
    assert len(contexts) == 1


def test_the_last_task_gives_the_exit_code(config: str) -> None:
    for script, code in (("fail no", 3), ("refuse no", 4), ("ask what?", 6), ("crash", 3)):
        assert run(app, ["agent", "try", "test/scripted", script, "-c", config]).exit_code == code


def test_an_agent_that_one_target_of_many_holds(config: str) -> None:
    result = run(app, ["agent", "try", "local/greeter", "you", "-c", config, "-v"])
    assert (result.exit_code, result.stdout) == (0, "Hello, you!\n")
    assert result.stderr == "✓ answered\n"
    code = str(Path(config).parent / "code.py")
    assert run(app, ["agent", "try", f"{code}:other", "x"]).stdout == "other\n"


def test_a_limit_in_time_stops_the_agent(config: str) -> None:
    result = run(app, ["agent", "try", "test/scripted", "hang", "-c", config, "--timeout", "0.1"])
    assert result.exit_code == 124
    assert "error: the agent did not end within 0.1 s and was stopped." in result.stderr


@pytest.mark.parametrize(
    ("agent", "complaint"),
    [
        ("test/scriptd", 'there is no agent "test/scriptd". Did you mean "test/scripted"?'),
        ("local/none", "There is: local/greeter, local/other, test/scripted,"),
        ("other/broken", "nothing_that_is_there"),
        ("{folder}/code.py", "Name one, as FILE.py:attribute. There is: greeter, other.\n"),
        ("{folder}/none.py", "no such file"),
    ],
)
def test_an_agent_that_is_not_there(agent: str, complaint: str, config: str) -> None:
    named = agent.format(folder=Path(config).parent)
    result = run(app, ["agent", "try", named, "x", "-c", config])
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr
