"""What shows on a terminal, which is not what goes into a pipe."""

import re
from pathlib import Path

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.gateway import Gateway

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def plain(shown: bytes) -> list[str]:
    """The lines that stay, without colours and spinners."""
    text = re.sub(r"\r\x1b\[2K[^\n]*?(?=\r\x1b\[2K|\x1b\[\?25h)", "", shown.decode())
    lines = [SEQUENCE.sub("", line).replace("\r", "") for line in text.split("\n")]
    spins = ("is working", "the task waits for")
    return [line for line in lines if line.strip() and not any(each in line for each in spins)]


def test_an_answer_shows_with_what_led_to_it(shell: Shell, shared: Gateway) -> None:
    script = (
        'note thinking; tool search {"q": 1}; delay 0.5; say Found it.; '
        'artifact file a.txt text/plain hello; artifact data {"a": 1}; stage; say More.'
    )
    with shell.on_terminal("send", shared.url, script) as terminal:
        terminal.until("is working")
        assert terminal.end() == 0
    lines = plain(terminal.shown)
    assert [line for line in lines if not line.startswith(("⠋", "asking"))][-9:-1] == [
        "· thinking",
        '→ search  {"q":1}',
        '← search  {"q":1}',
        "Found it.",
        "▪ a.txt (text/plain, 5 B)",
        '▪ data  {"a":1}',
        "More.",
        next(line for line in lines if line.startswith("✓ completed  task ")),
    ]
    assert lines[-1].startswith("  Get a file: trunkline status ")
    assert b"\x1b[32m" in terminal.shown


def test_colours_can_be_refused(shell: Shell, shared: Gateway) -> None:
    with shell.on_terminal("send", shared.url, "say hi", NO_COLOR="1") as terminal:
        assert terminal.end() == 0
    assert re.findall(r"\x1b\[[0-9;]*3[0-7]m", terminal.shown.decode()) == []


def test_a_dumb_terminal_gets_no_spinner(shell: Shell, shared: Gateway) -> None:
    with shell.on_terminal("send", shared.url, "delay 0.3; say hi", TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert b"\x1b" not in terminal.shown
    assert b"is working" not in terminal.shown
    assert b"hi\r\n" in terminal.shown


def test_the_agent_cannot_write_to_the_terminal_itself(shell: Shell, shared: Gateway) -> None:
    script = "note \x1b]0;a\x07b; artifact text \x1b[5mname \x1b[2Jtext; say \x9b31mred"
    with shell.on_terminal("send", shared.url, script) as terminal:
        assert terminal.end() == 0
    shown = terminal.shown.decode()
    assert "\x07" not in shown
    assert "\x9b" not in shown
    assert "\x1b[2J" not in shown
    assert "\x1b[5m" not in shown
    assert "\x1b]" not in shown


def test_a_gateway_that_waits_for_its_agents_says_so(shell: Shell) -> None:
    (shell.folder / "slow.toml").write_text(
        "[server]\nport = 0\n[store]\nkind = 'memory'\n"
        "[agents.'demo/slow']\nname = 'Slow'\ndefault = true\nbackend = { kind = 'scripted' }\n"
    )
    with shell.on_terminal("serve", "--config", "slow.toml") as terminal:
        terminal.until("Stop with Ctrl+C.")
        url = re.search(r"http://127\.0\.0\.1:\d+", plain(terminal.shown)[0])
        assert url is not None
        assert shell.run("send", url[0], "hang", "--no-wait").code == 0
        terminal.interrupt()
        terminal.until("Stopping: running turns have 10 s to finish. Ctrl+C again stops now.")
        terminal.interrupt()
        assert terminal.end() == 0


def test_a_gateway_that_has_nothing_to_wait_for_just_ends(shell: Shell) -> None:
    with shell.on_terminal("serve", "--port", "0", "--db", "memory:") as terminal:
        terminal.until("Stop with Ctrl+C.")
        terminal.interrupt()
        assert terminal.end() == 0
    assert b"Stopping" not in terminal.shown


def test_a_list_has_room_for_words_in_80_columns(shell: Shell, shared: Gateway) -> None:
    shell.run("send", shared.url, "ask Which colour?", "--context", "cli-narrow")
    for columns, since in (("80", r"\d\d-\d\d \d\d:\d\d"), ("120", r"\d{4}-[-\d]+ [:\d]{8}")):
        arguments = ("list", shared.url, "--context", "cli-narrow")
        with shell.on_terminal(*arguments, COLUMNS=columns) as terminal:
            assert terminal.end() == 0
        *_, heads, row = plain(terminal.shown)
        assert re.fullmatch(r"TASK +STATE +SINCE \(UTC\) +LAST MESSAGE *", heads), heads
        assert re.fullmatch(rf"\S+  input-required  {since}  Which col\S+ *", row), row


def test_ctrl_c_puts_the_terminal_in_order(shell: Shell, shared: Gateway) -> None:
    with shell.on_terminal("send", shared.url, "hang") as terminal:
        terminal.until("is working")
        terminal.interrupt()
        assert terminal.end() == 130
    # The cursor is back.
    assert terminal.shown.rindex(b"\x1b[?25h") > terminal.shown.rindex(b"\x1b[?25l")
    assert b"Nothing was sent" not in terminal.shown
