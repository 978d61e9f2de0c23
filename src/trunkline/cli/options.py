"""Arguments and options that several commands share, and the parsers of their values."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import typer

from trunkline.model.errors import ConfigError

Form: TypeAlias = Literal["text", "json"]


def whole(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """The parser of a whole number. Typer passes defaults through it too, as numbers."""
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"

    def number(given: str | int) -> int:
        try:
            value = int(given)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise typer.BadParameter(f'expected a whole number {bounds}, got "{given}".')
        return value

    return number


def seconds(given: str | float) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.001):
        raise typer.BadParameter(f'expected seconds, such as 30 or 0.5, got "{given}".')
    return value


def not_empty(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Refuse an empty value: a script that forgot to set a variable must not mean another task."""
    if not value.strip() and is_typed(context, parameter.name or ""):
        raise typer.BadParameter(
            "it is empty. Is the variable set? Leave the option out if you do not need it."
        )
    return value


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether the value is from the command line, not from the environment or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def from_json(text: str | bytes, *, what: str, remedy: str = "") -> Any:
    """The value of a JSON text. `what` names the text in the ConfigError that it raises."""
    try:
        return msgspec.json.decode(text)
    except UnicodeDecodeError:
        fault = "it is not UTF-8"
    except RecursionError:
        fault = "it is nested too deeply"
    except msgspec.DecodeError as error:
        fault = str(error).removeprefix("JSON is malformed: ")
        if "truncated" in fault:
            fault = "it ends too early"
    raise ConfigError(f"{what} is not JSON: {fault}. {remedy}".rstrip())


def seconds_option(help: str, *, default: str | bool = True) -> Any:
    return typer.Option(parser=seconds, metavar="SECONDS", help=help, show_default=default)


def id_option(help: str, *, default: str) -> Any:
    return typer.Option(metavar="ID", help=help, show_default=default, callback=not_empty)


def limit_option(help: str) -> Any:
    return typer.Option("--limit", "-n", parser=whole(1), metavar="N", help=help)


Debug = Annotated[
    bool, typer.Option("--debug", envvar="TRUNKLINE_DEBUG", help="Show the traceback of an error.")
]
Output = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
OpenClawConfig = Annotated[
    Path | None,
    typer.Option(
        "--openclaw-config", metavar="FILE", help="An openclaw.json file (JSON5 or YAML)."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder of the database.", show_default="the user's data folder"
    ),
]
Database = Annotated[
    str | None, typer.Option(metavar="URL", help="Database URL: sqlite:///FILE or memory:.")
]

# Of commands that call agents.
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Address of an agent (URL, host:port or :port) or alias of a configured target.",
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Id of a task.",
        show_default="the last task sent to this target",
        callback=not_empty,
    ),
]
ResultOutput = Annotated[
    Form, typer.Option("--output", "-o", help="Output format: text for people, json for programs.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print progress on stderr even without a terminal.")
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        help="File to send, or the URL of a file. Repeatable; 20 MB in total.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="JSON", help="JSON data to send, or @FILE to read it from a file. Repeatable."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Save the artifacts of the answer in this folder. Existing files are kept.",
    ),
]
History = Annotated[
    int | None,
    typer.Option(parser=whole(0), metavar="N", help="Number of earlier messages to fetch."),
]
