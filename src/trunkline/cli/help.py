"""How the help of a command is laid out."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Function = TypeVar("Function", bound=Callable[..., Any])


def command(
    app: typer.Typer, name: str, *, panel: str | None = None
) -> Callable[[Function], Function]:
    """Makes a function a command, with its docstring as the help."""

    def register(function: Function) -> Function:
        text = _flowing(function.__doc__ or "")
        return app.command(name, help=text, rich_help_panel=panel)(function)

    return register


def _flowing(text: str) -> str:
    # Typer keeps the line ends of the source, which are not those of the terminal.
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
