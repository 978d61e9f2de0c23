"""Write docs/reference/cli.md from the commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trunkline.cli.commands import app
from trunkline.cli.exit_codes import Exit

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
INTRODUCTION = """\
# Command line

<!-- Written by tools/gen_cli_docs.py from src/trunkline/cli; edit the commands there. -->

An error is one paragraph on stderr that names the remedy. `--debug` (or `TRUNKLINE_DEBUG=1`),
before or after the command, adds the traceback. `NO_COLOR` turns colours off.

The exit codes keep their meaning in later releases:

| exit code | meaning |
|---|---|
EXIT_CODES

The default folder of the database is `$XDG_DATA_HOME/trunkline`, or `~/.local/share/trunkline` if
that variable is not set (macOS: `~/Library/Application Support/trunkline`, Windows:
`%LOCALAPPDATA%\\trunkline`). Only its owner can read it. A `trunkline.toml` in the current folder
is read only if you name it with `--config` or `TRUNKLINE_CONFIG`;
[configuration.md](configuration.md) lists its keys.
"""


def render() -> str:
    codes = "\n".join(f"| {code.value} | {code.meaning} |" for code in Exit)
    parts = [INTRODUCTION.replace("EXIT_CODES", codes)]
    for name, command in commands(typer.main.get_command(app)):
        parts.append("\n".join(_section(name, command)))
    return "\n".join(parts).rstrip() + "\n"


def commands(command: Any, prefix: str = "trunkline") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, groups before their members."""
    yield prefix, command
    for name, member in getattr(command, "commands", {}).items():
        yield from commands(member, f"{prefix} {name}")


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    words = [name, *(f"[{_metavar(argument)}]" for argument in arguments)]
    words += ["[OPTIONS]"] if options else []
    words += ["COMMAND"] if hasattr(command, "commands") else []
    yield f"## `{name}`\n"
    yield f"```\n{' '.join(words)}\n```\n"
    yield f"{(command.help or '').strip()}\n"
    members = getattr(command, "commands", {})
    yield from (f"- `{name} {member}`" for member in members)
    if members:
        yield ""
    if arguments or options:
        yield "| option | description |\n|---|---|"
        yield from (f"| `{_metavar(argument)}` | {_about(argument)} |" for argument in arguments)
        yield from (f"| {_flags(option)} | {_about(option)} |" for option in options)
        yield ""


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _flags(option: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in sorted(option.opts, key=len, reverse=True))


def _about(param: Any) -> str:
    text = str(param.help or "")
    if isinstance(param.show_default, str):
        text += f" Default: {param.show_default}."
    if param.envvar:
        text += f" Environment: `{param.envvar}`."
    return text


if __name__ == "__main__":
    FILE.write_text(render(), "utf-8")
