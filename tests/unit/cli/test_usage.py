"""Wrong usage is one line that says what is wrong and where the help is."""

from typing import Annotated

import pytest
import typer
from msgspec import Struct
from typer.testing import CliRunner

from trunkline.cli.commands import app
from trunkline.cli.exit_codes import Exit
from trunkline.cli.usage import command

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


class Inner(Struct, frozen=True, kw_only=True):
    size: int = 1
    colour: Annotated[str, typer.Option("--colour", "-c")] = "red"


class Outer(Struct, frozen=True, kw_only=True):
    first: bool = False
    inner: Inner
    last: str = ""


def test_a_struct_stands_for_a_flag_per_field_in_their_order() -> None:
    own, got = typer.Typer(), list[object]()

    @command(own, "paint")
    def paint(name: str, *, flags: Outer, wet: bool = False) -> Exit:
        """Paint."""
        got.extend((name, flags, wet))
        return Exit.REFUSED

    words = ["wall", "--first", "-c", "blue", "--last", "now", "--wet"]
    assert CliRunner().invoke(own, words).exit_code == Exit.REFUSED
    assert got == ["wall", Outer(first=True, inner=Inner(colour="blue"), last="now"), True]
    shown = CliRunner().invoke(own, ["--help"]).stdout
    places = [shown.index(f"--{name}") for name in ("first", "size", "colour", "last", "wet")]
    assert places == sorted(places)
