"""`trunkline send` and `stream`: what a script reads of them."""

import json
import re
import signal
from pathlib import Path

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.conftest import ALICE_KEY
from tests.acceptance.gateway import Gateway


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_in_a_pipe_stdout_is_the_answer_and_nothing_else(shell: Shell, shared: Gateway) -> None:
    script = 'note thinking; tool search {"q": 1}; stream 3; artifact file a.txt text/plain hello'
    ended = shell.run("send", shared.url, script)
    assert (ended.code, ended.out, ended.err) == (0, "1 2 3 \n", "")


@pytest.mark.parametrize("arguments", [("-",), ()], ids=["dash", "nothing"])
def test_the_message_may_come_from_stdin(
    arguments: tuple[str, ...], shell: Shell, shared: Gateway
) -> None:
    ended = shell.run("send", shared.url, *arguments, stdin="say grüß dich\n".encode())
    assert (ended.code, ended.out) == (0, "grüß dich\n")


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("protocol", ["jsonrpc", "http"])
def test_every_binding_and_version(
    protocol: str, version: str, shell: Shell, shared: Gateway
) -> None:
    ways = ("--protocol", protocol, "--a2a-version", version)
    ended = shell.run("send", shared.url, "stream 3", *ways)
    assert (ended.code, ended.out) == (0, "1 2 3 \n")


@pytest.mark.parametrize(
    ("script", "code", "out", "err"),
    [
        ("fail no paper", 3, "", "✗ failed: no paper  task "),
        ("refuse not mine", 4, "", "✗ rejected: not mine  task "),
        ("ask how many?", 6, "how many?\n", "? waits for your answer  task "),
        ("auth sign in, please", 7, "sign in, please\n", "? waits for a sign-in  task "),
    ],
)
def test_the_exit_code_says_how_the_task_ended(
    script: str, code: int, out: str, err: str, shell: Shell, shared: Gateway
) -> None:
    ended = shell.run("send", shared.url, script)
    assert (ended.code, ended.out) == (code, out)
    assert ended.err.startswith(err)


def test_quiet_is_quiet(shell: Shell, shared: Gateway) -> None:
    ended = shell.run("send", shared.url, "say Hm.; fail no paper", "--quiet")
    assert (ended.code, ended.out, ended.err) == (3, "Hm.\n", "")


def test_a_question_is_answered_with_continue(shell: Shell, shared: Gateway) -> None:
    asked = shell.run("send", shared.url, "say Hm.; ask how many?")
    assert asked.code == 6
    assert asked.out == "Hm.\n\nhow many?\n"
    assert f'Answer: trunkline send {shared.url} --continue "…"' in asked.err
    # What it said before the question is not said again.
    again = shell.run("send", shared.url, "--continue", "ask and how long?")
    assert (again.code, again.out) == (6, "and how long?\n")
    done = shell.run("stream", shared.url, "--continue", "say two days")
    assert (done.code, done.out) == (0, "two days\n")
    # The task has ended, and the conversation goes on with another.
    further = shell.run("send", shared.url, "--continue", "say more", "-o", "json")
    last = shell.run("send", shared.url, "--continue", "show context_id", "-o", "json")
    tasks = [json.loads(ended.out)["task"] for ended in (further, last)]
    assert tasks[0]["contextId"] == tasks[1]["contextId"]
    assert tasks[0]["id"] != tasks[1]["id"]


def test_a_task_and_a_context_can_be_named(shell: Shell, shared: Gateway) -> None:
    asked = json.loads(shell.run("send", shared.url, "ask who?", "-o", "json").out)["task"]
    done = shell.run("send", shared.url, "say me", "--task", asked["id"])
    assert (done.code, done.out) == (0, "me\n")
    other = shell.run("send", shared.url, "x", "--context", asked["contextId"], "-o", "json")
    assert json.loads(other.out)["task"]["contextId"] == asked["contextId"]


def test_what_is_remembered_is_for_its_owner_alone(shell: Shell, shared: Gateway) -> None:
    shell.run("send", shared.url, "hello", "--token", ALICE_KEY)
    [file] = (shell.folder / "data" / "trunkline").iterdir()
    assert file.name == "conversations.json"
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    assert ALICE_KEY not in file.read_text()


def test_files_and_data_go_along(shell: Shell, shared: Gateway) -> None:
    (shell.folder / "note.txt").write_text("a note")
    (shell.folder / "dot.png").write_bytes(b"\x00\xff")
    arguments = ["--file", "note.txt", "--file", "dot.png", "--file", "https://x.test/a.png?x=1"]
    arguments += ["--data", '{"n": 1}']
    ended = shell.run("send", shared.url, "show message", *arguments, "-o", "json")
    parts = json.loads(ended.out)["task"]["artifacts"][0]["parts"][0]["data"]["parts"]
    assert [(part.get("filename"), part.get("mediaType")) for part in parts[1:4]] == [
        ("note.txt", "text/plain"),
        ("dot.png", "image/png"),
        ("a.png", "image/png"),
    ]
    assert parts[3]["url"] == "https://x.test/a.png?x=1"
    assert parts[4]["data"] == {"n": 1}


def test_files_come_out(shell: Shell, shared: Gateway) -> None:
    script = (
        "say an answer; artifact file ../../evil.sh text/x-sh echo; "
        'artifact data {"a": 1}; artifact text notes remember this; tool search {"q": 1}'
    )
    for suffix in ("", "-2"):
        ended = shell.run("send", shared.url, script, "--save", "out")
        assert ended.code == 0
        assert f"saved out/evil{suffix}.sh (4 B)\n" in ended.err
    names = ["answer", "data", "evil", "notes"]
    suffixes = {"answer": ".txt", "data": ".json", "evil": ".sh", "notes": ".txt"}
    made = sorted(path.name for path in (shell.folder / "out").iterdir())
    assert made == sorted(f"{name}{n}{suffixes[name]}" for name in names for n in ("", "-2"))
    assert (shell.folder / "out" / "answer.txt").read_text() == "an answer"
    assert json.loads((shell.folder / "out" / "data.json").read_text()) == {"a": 1}


def test_a_folder_that_is_a_file_is_noticed_before_anything_is_sent(
    shell: Shell, shared: Gateway
) -> None:
    (shell.folder / "out").touch()
    ended = shell.run("send", shared.url, "x", "--save", "out")
    assert (ended.code, ended.err) == (
        2,
        "error: --save out is a file. Name a folder; it is created if needed.\n",
    )


def test_json_is_one_document(shell: Shell, shared: Gateway) -> None:
    ended = shell.run("send", shared.url, "stream 2", "-o", "json")
    task = json.loads(ended.out)["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part["text"] for part in task["artifacts"][0]["parts"]] == ["1 2 "]
    assert task["history"][0]["role"] == "ROLE_USER"
    without = shell.run("send", shared.url, "stream 2", "-o", "json", "--history", "0")
    assert "history" not in json.loads(without.out)["task"]
    direct = shell.run("send", shared.agent_url("test/greeter"), "you", "-o", "json")
    assert json.loads(direct.out)["message"]["parts"] == [{"text": "Hello, you!"}]


def test_a_stream_in_json_is_one_line_for_each_event(shell: Shell, shared: Gateway) -> None:
    ended = shell.run("stream", shared.url, "stream 2", "-o", "json")
    events = [json.loads(line) for line in ended.out.splitlines()]
    names = [name for event in events for name in event]
    assert names == ["task", "statusUpdate", *["artifactUpdate"] * 2, "statusUpdate"]


def test_without_waiting_stdout_is_the_task(shell: Shell, shared: Gateway) -> None:
    sent = shell.run("send", shared.url, "hang", "--no-wait")
    assert (sent.code, sent.err) == (0, "")
    task_id = sent.out.strip()
    status = shell.run("status", shared.url, task_id, "-o", "json")
    assert json.loads(status.out)["status"]["state"] in (
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
    )
    assert shell.run("cancel", shared.url, task_id).out == "canceled\n"


@pytest.mark.parametrize("options", [(), ("--no-stream",)], ids=["stream", "one call"])
def test_a_limit_in_time_ends_the_waiting_and_not_the_task(
    options: tuple[str, ...], shell: Shell, shared: Gateway
) -> None:
    ended = shell.run("send", shared.url, "hang", "--timeout", "1", *options)
    assert (ended.code, ended.out) == (124, "")
    assert ended.err.startswith("error: no answer within 1 s. ")
    if not options:
        assert f"Follow it: trunkline watch {shared.url} " in ended.err


def test_an_agent_that_does_not_stream_is_waited_for(shell: Shell, shared: Gateway) -> None:
    for command in ("send", "stream"):
        ended = shell.run(command, shared.agent_url("test/whole"), "hello")
        assert (ended.code, ended.out) == (0, "hello\n")


def test_an_answer_without_a_task(shell: Shell, shared: Gateway) -> None:
    ended = shell.run("send", shared.agent_url("test/greeter"), "you")
    assert (ended.code, ended.out, ended.err) == (0, "Hello, you!\n", "")
    assert shell.run("status", shared.agent_url("test/greeter")).code == 2


def test_nothing_of_the_agent_reaches_the_terminal_raw(shell: Shell, shared: Gateway) -> None:
    text = "say \x1b[31mred\x1b[0m\x1b]0;owned\x07 \x9b2J\u202eend\x7f"
    ended = shell.run("send", shared.url, "-", stdin=text.encode())
    assert ended.out == "red end\n"
    failed = shell.run("send", shared.url, "-", stdin=b"fail \x1b[2Jgone")
    assert "✗ failed: gone  task" in failed.err
    exact = shell.run("send", shared.url, "-", "-o", "json", stdin=text.encode())
    assert exact.out.isascii()
    assert json.loads(exact.out)["task"]["artifacts"][0]["parts"][0]["text"] == text[4:]


def test_a_reader_that_goes_away_is_no_error(shell: Shell, shared: Gateway) -> None:
    with shell.started("stream", shared.url, "stream 100 every 0.02") as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == "1 "
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait() == 141


def test_ctrl_c_leaves_the_task_and_says_how_to_go_on(shell: Shell, shared: Gateway) -> None:
    with shell.started("stream", shared.url, "say begun; hang") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == "begun"
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
        assert process.wait() == 130
    lines = told.splitlines()
    assert lines[0] == "The task continues."
    cancel = lines[2].removeprefix("  Stop it:   trunkline ").split()
    assert lines[1].removeprefix("  Follow it: trunkline ").split() == ["watch", *cancel[1:]]
    assert shell.run(*cancel).out == "canceled\n"


def test_files_that_cannot_be_written_can_be_had_again(shell: Shell, shared: Gateway) -> None:
    (shell.folder / "file").write_text("")
    sent = shell.run("send", shared.url, "artifact file a.txt text/plain hi", "--save", "file/x")
    assert sent.code == 1
    again = sent.err.strip().partition("Get it again with: trunkline ")[2].split()
    assert again[:2] == ["status", shared.url]
    assert again[3:] == ["--save", "DIR"]
    assert shell.run(*again).code == 0
    assert (shell.folder / "DIR" / "a.txt").read_text() == "hi"


def test_without_a_place_for_conversations_the_task_is_named(shell: Shell, shared: Gateway) -> None:
    (shell.folder / "file").write_text("")
    sent = shell.run("send", shared.url, "ask What?", XDG_DATA_HOME=str(shell.folder / "file"))
    assert sent.code == 6
    assert "note: --continue will not find this conversation, because " in sent.err
    assert "is not writable. Set XDG_DATA_HOME to a writable folder.\n" in sent.err
    assert re.search(r"Answer: trunkline send \S+ --task \S+ \"…\"", sent.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("\udcff",),
        ("hello", "--context", "\udcff"),
        ("hello", "--data", '"\udcff"'),
        ("hello", "--file", "http://host/\udcff"),
        ("hello", "--token", "\udcff"),
        ("hello", "-H", "X-Team: \udcff"),
    ],
    ids=["text", "context", "data", "link", "token", "header"],
)
def test_bytes_that_are_no_text_are_wrong_use(
    arguments: tuple[str, ...], shell: Shell, shared: Gateway
) -> None:
    ended = shell.run("send", shared.url, *arguments)
    assert ended.code == 2
    assert "is not UTF-8 text" in ended.err or "is no" in ended.err


def test_a_file_whose_name_is_no_text_is_sent(shell: Shell, shared: Gateway) -> None:
    (shell.folder / "a\udcff.txt").write_text("hello")
    ended = shell.run("send", shared.url, "say got it", "--file", "a\udcff.txt")
    assert (ended.code, ended.out) == (0, "got it\n")
