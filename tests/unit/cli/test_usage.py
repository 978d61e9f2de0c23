"""Wrong usage is one line that says what is wrong and where the help is."""

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("frobnicate", "error: no such command 'frobnicate'. Help: trunkline -h"),
        ("sned", "error: no such command 'sned'. Did you mean 'send'? Help: trunkline -h"),
        ("--nonsense", "error: no such option: --nonsense. Help: trunkline -h"),
        ("send", "error: missing argument 'TARGET'. Help: trunkline send -h"),
        (f"card {URL} x", "error: got unexpected extra argument(s) (x). Help: trunkline card -h"),
        ("config chekc", "Help: trunkline config -h"),
        ("db prune --keep", "error: option '--keep' requires an argument. Help: trunkline"),
        (
            f"send {URL} x --protocol a-very-long-name-of-a-protocol-that-no-frame-has-room-for",
            "error: invalid value for '--protocol': "
            "'a-very-long-name-of-a-protocol-that-no-frame-has-room-for' is not one of 'jsonrpc', "
            "'http'. Help: trunkline send -h",
        ),
    ],
)
def test_wrong_usage_is_one_line(words: str, line: str) -> None:
    result = CliRunner().invoke(app, words.split(), prog_name="trunkline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("group", ["agent", "config", "db"])
def test_a_group_without_a_command_shows_its_help(group: str) -> None:
    result = CliRunner().invoke(app, [group], prog_name="trunkline")
    assert result.exit_code == 2
    assert f"Usage: trunkline {group} " in result.output
    assert "error:" not in result.output
