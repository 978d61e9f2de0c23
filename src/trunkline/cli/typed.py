"""What is typed on a command line: numbers, ids and JSON, refused in plain words."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import typer

from trunkline.model.errors import ConfigError


def whole(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """Reads a whole number. Defaults come along as numbers."""
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
    # A variable that a script forgot to set must not mean another task, or nobody in particular.
    source = context.get_parameter_source(parameter.name or "")
    if not value.strip() and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter(
            "it is empty. Is the variable set? Leave the option out if you do not need it."
        )
    return value


def from_json(text: str | bytes, *, what: str, remedy: str = "") -> Any:
    """Raises ConfigError; `what` names what was typed."""
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
