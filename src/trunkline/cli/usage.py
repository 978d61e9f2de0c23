"""`command` and `Commands`: help texts, usage errors and the end of every command."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import typer
from msgspec import Struct
from typer.core import TyperGroup

from trunkline.cli.exit_codes import Exit, complain, reported
from trunkline.cli.options import Debug, is_typed
from trunkline.cli.output import one_line, program

Function = TypeVar("Function", bound=Callable[..., Any])
# The base of all usage errors, for which Typer has no public name.
_UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
_CONTEXT: Final = inspect.Parameter(
    "invocation", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
)
# No short help is cut: the longest one is a sentence.
_MAX_SHORT_HELP: Final = 200
_DEBUG: Final = inspect.Parameter(
    "debug", inspect.Parameter.KEYWORD_ONLY, annotation=Debug, default=False
)


def command(
    app: typer.Typer, name: str, *, panel: str | None = None, has_debug: bool = True
) -> Callable[[Function], Function]:
    """Make a function a command that ends with the exit code it returns, or as `reported` says.

    The docstring is the help. A parameter whose type is a Struct stands for a flag per field, and
    a parameter `invocation` is the typer.Context.
    """

    def register(function: Function) -> Function:
        own = parameters_of(function)

        @functools.wraps(function)
        def run(invocation: typer.Context, **given: Any) -> None:
            with reported(invocation):
                given["invocation"] = invocation
                raise typer.Exit(function(**_bound(own, given)) or Exit.DONE)

        flags = [one for one in _flat(own) if one.name != "invocation"]
        set_parameters(run, [_CONTEXT, *flags, *([_DEBUG] if has_debug else [])])
        app.command(name, help=_flowing(function.__doc__ or ""), rich_help_panel=panel)(run)
        return function

    return register


def default_command(app: typer.Typer) -> Callable[[Function], Function]:
    """Make a function what a group does when no command of it is named, as `command` does."""

    def register(function: Function) -> Function:
        own = parameters_of(function)

        @functools.wraps(function)
        def run(invocation: typer.Context, **given: Any) -> None:
            if invocation.invoked_subcommand is not None:
                _check_untyped(invocation, given)
                return
            with reported(invocation):
                given["invocation"] = invocation
                raise typer.Exit(function(**_bound(own, given)) or Exit.DONE)

        flags = [one for one in _flat(own) if one.name != "invocation"]
        set_parameters(run, [_CONTEXT, *flags, _DEBUG])
        app.callback(invoke_without_command=True, help=_flowing(function.__doc__ or ""))(run)
        return function

    return register


def _check_untyped(context: typer.Context, given: Iterable[str]) -> None:
    """Refuse options before the name of a command, which would have no effect."""
    for name in given:
        if name != "debug" and is_typed(context, name):
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"{option} goes behind the command: {context.command_path} "
                f"{context.invoked_subcommand} {option} …"
            )


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [*inspect.signature(function).parameters.values()]


def set_parameters(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> None:
    """Give a function the signature from which Typer makes arguments and options."""
    keywords = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters]
    cast(Any, function).__signature__ = inspect.Signature(keywords)
    function.__annotations__ = {one.name: one.annotation for one in keywords}


def _is_group(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Struct)


def _flat(parameters: list[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """The parameters, with the fields of each Struct in its place."""
    for one in parameters:
        yield from _flat(parameters_of(one.annotation)) if _is_group(one) else [one]


def _bound(parameters: list[inspect.Parameter], given: dict[str, Any]) -> dict[str, Any]:
    """The values of the parameters; those of a Struct are made of its fields."""
    return {
        one.name: one.annotation(**_bound(parameters_of(one.annotation), given))
        if _is_group(one)
        else given[one.name]
        for one in parameters
    }


def _flowing(text: str) -> str:
    # Typer keeps the line breaks of the source, which do not fit the terminal.
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


class Group(TyperGroup):
    """Lists its commands by panel, where click would make one list of them.

    Typer draws frames with Rich, which takes longer to load than all commands together.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        width = formatter.width - 6 - max(map(len, self.commands), default=0)
        for name, one in self.commands.items():
            if not one.hidden:
                # Only groups and commands of Typer have panels.
                panel = getattr(one, "rich_help_panel", None)
                rows = panels.setdefault(panel if isinstance(panel, str) else "Commands", [])
                rows.append((name, one.get_short_help_str(max(width, _MAX_SHORT_HELP))))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def group(help: str, *, has_default: bool = False) -> typer.Typer:
    """A command that has commands; without one it prints its help, or runs its
    `default_command`."""
    return typer.Typer(cls=Group, help=help, no_args_is_help=not has_default, rich_markup_mode=None)


class Commands(Group):
    """Prints a usage error as one paragraph, where Typer would draw a frame around it.

    A frame breaks lines that are to be copied, and looks odd in a log.
    """

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _usage_errors():
            return super().invoke(ctx)


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        # Not an error but the help of a group that was called without a command.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        message = one_line(error.format_message())
        message += "" if message.endswith((".", "?")) else "."
        where = error.ctx.command_path if error.ctx is not None else program()
        complain(f"{message[:1].lower()}{message[1:]} Help: {where} -h")
        raise typer.Exit(Exit.WRONG_USE) from error
