"""The commands beside `send`: cards, tasks, targets, and what they say when something is wrong."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.conftest import ALICE_KEY, BOB_KEY, Make
from tests.acceptance.gateway import Gateway, held
from tests.acceptance.remote import sdk_server, served


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def sdk() -> Iterator[str]:
    with served(*sdk_server()) as url:
        yield url


def test_card(shell: Shell, locked: Gateway) -> None:
    lines = shell.run("card", locked.url).out.splitlines()
    assert lines[:3] == [
        "Name       Scripted 1.0.0",
        "About      Does what it is told",
        f"Interface  JSONRPC 1.0 {locked.url}/a2a/jsonrpc",
    ]
    assert "Access     bearer: HTTP bearer" in lines
    assert "Supports   streaming" in lines
    served = json.loads(shell.run("card", locked.url, "-o", "json").out)
    # As it is served, with what only 0.3 has.
    assert served["protocolVersion"].startswith("0.3")
    assert served["supportedInterfaces"][0]["protocolVersion"] == "1.0"


def test_the_card_for_those_whom_the_agent_knows(shell: Shell, shared: Gateway) -> None:
    url = shared.agent_url("test/extended")
    arguments = ("card", url, "--extended", "--token", ALICE_KEY)
    assert "About      What only customers may know" in shell.run(*arguments).out
    card = json.loads(shell.run(*arguments, "-o", "json").out)
    assert "The secret skill" in [skill["name"] for skill in card["skills"]]


def test_list_status_and_cancel(shell: Shell, shared: Gateway) -> None:
    context = "cli-list"
    for script in ("say one", "say two", "ask three?"):
        shell.run("send", shared.url, script, "--context", context)
    args = ("list", shared.url, "--context", context)
    rows = [line.split("\t") for line in shell.run(*args).out.splitlines()]
    assert [(row[1], row[3]) for row in rows] == [
        ("input-required", "three?"),
        ("completed", "two"),
        ("completed", "one"),
    ]
    [waiting] = shell.run(*args, "--status", "input-required").out.splitlines()
    assert waiting.split("\t")[0] == rows[0][0]
    page = json.loads(shell.run(*args, "--limit", "2", "-o", "json").out)
    assert [task["id"] for task in page["tasks"]] == [rows[0][0], rows[1][0]]
    assert page["totalSize"] == 3
    assert page["nextPageToken"]
    everything = json.loads(shell.run(*args, "--all", "-o", "json").out)
    assert len(everything["tasks"]) == 3
    assert everything["nextPageToken"] == ""

    told = shell.run("status", shared.url, rows[1][0], "--save", "out")
    assert told.code == 0
    assert f"Task       {rows[1][0]}\nState      completed\n" in told.out
    assert told.out.endswith("\n\ntwo\n")
    assert told.err == "saved out/answer.txt (3 B)\n"
    # Without a name, it is the last one.
    last = shell.run("status", shared.url, "--history", "9")
    assert "State      input-required" in last.out
    assert "You said   ask three?\n" in last.out

    assert shell.run("cancel", shared.url, rows[0][0]).out == "canceled\n"
    refused = shell.run("cancel", shared.url, rows[0][0])
    assert refused.code == 11
    assert "A task that has ended cannot be canceled." in refused.err
    watched = shell.run("watch", shared.url, rows[0][0])
    assert watched.code == 5
    assert "■ canceled" in watched.err


def test_watch_goes_on_over_a_restart_of_the_agent(shell: Shell, make: Make) -> None:
    gateway = make().start()
    port = str(gateway.port)
    shell.run("send", gateway.url, "--no-wait", "stream 3; hang")
    with shell.started("watch", gateway.url) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == "1 2 3 "
        gateway.kill()
        with held(process):
            gateway.start("--port", port)
        assert process.stdout.read() == "\n"
        assert process.stderr is not None
        assert "✗ failed:" in process.stderr.read()
        assert process.wait() == 3


def test_an_agent_on_another_server(shell: Shell, sdk: str) -> None:
    for version in ("1.0", "0.3"):
        way = ("--a2a-version", version)
        assert shell.run("send", sdk, "stream 4", *way).out == "0 1 2 3 \n"
    assert shell.run("send", sdk, "direct").out == "straight\n"
    assert "Skills     Echo [echo]\n" in shell.run("card", sdk).out
    asked = shell.run("send", sdk, "ask")
    assert asked.code == 6
    done = shell.run("send", sdk, "--continue", "thanks")
    assert (done.code, done.out) == (0, "thanks\n")
    begun = shell.run("send", sdk, "hang", "--no-wait")
    watched = shell.run("watch", sdk, "--timeout", "1")
    assert watched.code == 124
    assert shell.run("cancel", sdk, begun.out.strip()).out == "canceled\n"
    assert shell.run("status", sdk).out.splitlines()[1] == "State      canceled"
    assert shell.run("list", sdk, "--status", "canceled").out.count("\n") == 1


def test_targets_are_called_by_their_alias(shell: Shell, locked: Gateway) -> None:
    (shell.folder / "t.toml").write_text(
        f"""
        [targets.mine]
        base_url = "{locked.url}"
        tags = ["a", "b"]
        default = true
        credentials = {{ kind = "bearer", token = "${{ALICE}}" }}
        [targets.gone]
        base_url = "http://127.0.0.1:1"
        description = "Not there"
        """
    )

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        shell.environment["ALICE"] = ALICE_KEY
        ended = shell.run(*arguments, "-c", "t.toml", stdin=b"", **environment)
        return ended.code, ended.out, ended.err

    assert run("targets")[:2] == (
        0,
        f"mine (default)\t{locked.url}\ta, b\t\ngone\thttp://127.0.0.1:1\t\tNot there\n",
    )
    code, out, err = run("targets", "--check")
    assert code == 9
    assert out.startswith(f"mine (default)\t{locked.url}\tScripted 1.0.0\tDoes what it is told\n")
    assert err.startswith("gone: http://127.0.0.1:1: cannot connect to 127.0.0.1:1: ")
    checked = json.loads(run("targets", "--check", "-o", "json")[1])["targets"]
    assert [one["isReachable"] for one in checked] == [True, False]

    # The token of the environment is for targets that have none.
    asked = run("send", "mine", "show principal", TRUNKLINE_TOKEN=BOB_KEY)
    assert asked[:2] == (0, '"alice"\n')
    flag = run("send", "mine", "show principal", "--token", BOB_KEY)
    assert flag[:2] == (0, '"bob"\n')
    question = run("send", "mine", "ask more?", "--token", BOB_KEY)
    assert "Answer: trunkline send mine --continue" in question[2]
    assert "--config t.toml --token …\n" in question[2]
    assert BOB_KEY not in question[2]
    unknown = run("send", "mien", "x")
    assert unknown[0] == 2
    assert unknown[2].startswith('error: there is no target "mien". Did you mean "mine"?')


def test_tasks_at_all_targets_are_one_list(shell: Shell, make: Make, sdk: str) -> None:
    gateway = make().start()
    (shell.folder / "t.toml").write_text(
        f"""
        [targets.one]
        base_url = "{gateway.url}"
        [targets.two]
        base_url = "{sdk}"
        [targets.gone]
        base_url = "http://127.0.0.1:1"
        """
    )
    for target, text in (("one", "ask first?"), ("two", "ask"), ("one", "say third")):
        shell.run("send", target, text, "-c", "t.toml", stdin=b"")
    ended = shell.run("targets", "--tasks", "-n", "2", "-c", "t.toml")
    rows = [line.split("\t") for line in ended.out.splitlines()]
    mine = [row for row in rows if row[0] == "one" or row[2] == "input-required"]
    assert [(row[0], row[2]) for row in mine[:3]] == [
        ("one", "completed"),
        ("two", "input-required"),
        ("one", "input-required"),
    ]
    assert mine[2][4] == "first?"
    assert len(rows) <= 4
    assert ended.err.startswith("gone: http://127.0.0.1:1: cannot connect to 127.0.0.1:1: ")
    assert ended.code == 9
    found = json.loads(shell.run("targets", "--tasks", "-c", "t.toml", "-o", "json").out)
    first, second, gone = found["targets"]
    assert len(first["tasks"]) == 2
    assert second["tasks"][0]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert ("tasks" in gone, gone["error"] != "") == (False, True)


def test_access(shell: Shell, locked: Gateway) -> None:
    refused = shell.run("send", locked.url, "x")
    assert refused.code == 10
    assert "Give a token with --token or TRUNKLINE_TOKEN" in refused.err
    wrong = shell.run("send", locked.url, "x", "--token", "not-a-key-of-anybody")
    assert wrong.code == 10
    assert "does not accept the credential: check it" in wrong.err
    assert "not-a-key-of-anybody" not in wrong.err
    assert shell.run("send", locked.url, "x", TRUNKLINE_TOKEN=ALICE_KEY).out == "x\n"
    header = shell.run("send", locked.url, "x", "-H", f"Authorization: Bearer {ALICE_KEY}")
    assert header.out == "x\n"


def test_what_is_wrong_is_said_with_its_remedy(shell: Shell, shared: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        cases: list[tuple[list[str], int, str]] = [
            (["send", shared.url], 2, "there is nothing to send."),
            (["send", shared.url, "x", "--continue"], 2, "there is no earlier conversation with"),
            (["send", "http://127.0.0.1:1", "x"], 9, "Is it running? Check the URL"),
            (["card", f"{shared.url}/nowhere"], 12, "there is no agent card at"),
            (["card", f"{shared.url}/metrics"], 12, "Give the base URL of an A2A agent"),
            (["status", shared.url, "none"], 8, f"List your tasks: trunkline list {shared.url}"),
            (["card", f"http://127.0.0.1:{port}", "--timeout", "0.5"], 124, "Nothing was sent."),
        ]
        for arguments, code, remedy in cases:
            ended = shell.run(*arguments)
            assert (ended.code, ended.out) == (code, ""), ended.err
            assert remedy in ended.err
            assert len(ended.err.splitlines()) <= 2


def test_a_version_that_the_agent_does_not_speak(shell: Shell, make: Make) -> None:
    agents = """
    [agents."test/old"]
    name = "Old"
    dialect = "v0.3"
    default_version = "0.3"
    backend = { kind = "echo" }
    """
    gateway = make(agents=agents).start()
    assert shell.run("send", gateway.url, "hello").out == "hello\n"
    refused = shell.run("send", gateway.url, "hello", "--a2a-version", "1.0")
    assert refused.code == 12
    assert "Leave out --a2a-version" in refused.err
