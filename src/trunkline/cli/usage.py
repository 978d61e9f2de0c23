"""Wrong usage ends like every other error: one paragraph on stderr that names the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from trunkline.cli.exits import Exit
from trunkline.cli.failures import complain
from trunkline.cli.program import program
from trunkline.cli.remote.clean import one_line

# What all of it derives from; Typer has no public name for that.
_WrongUsage: Final = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class Commands(TyperGroup):
    """Typer would draw a frame, which cuts what is to be copied and is odd in a log."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _reported():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _reported():
            return super().invoke(ctx)


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except _WrongUsage as error:
        # The help of a group that was called without a command.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        said = one_line(error.format_message())
        said += "" if said.endswith((".", "?")) else "."
        where = error.ctx.command_path if error.ctx is not None else program()
        complain(f"{said[:1].lower()}{said[1:]} Help: {where} -h")
        raise typer.Exit(Exit.WRONG_USE) from error
