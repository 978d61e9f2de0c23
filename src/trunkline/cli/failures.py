"""How errors end: one paragraph on stderr, an exit code, and no traceback unless asked for."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from trunkline.cli.exits import Exit
from trunkline.model.errors import ConfigError, TrunklineError


@contextmanager
def reported(context: typer.Context) -> Iterator[None]:
    """Print what the command raises and exit: 2 for configuration, 1 for anything else known,
    and without a word when nobody reads what is printed.

    Bugs are not known: they keep their traceback.
    """
    try:
        yield
    except ConfigError as error:
        _end(context, error, error.message, Exit.WRONG_USE)
    except TrunklineError as error:
        _end(context, error, error.message, Exit.FAILED)
    except BrokenPipeError as error:
        # Whoever read has enough. The interpreter flushes once more when it ends.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.PIPE_CLOSED) from error
    except OSError as error:
        _end(context, error, _explained(error), Exit.FAILED)


def complain(message: str) -> None:
    coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = "\x1b[1;31merror:\x1b[0m" if coloured else "error:"
    print(f"{label} {message}", file=sys.stderr, flush=True)


def _end(context: typer.Context, error: Exception, message: str, code: int) -> None:
    if wants_traceback(context):
        import traceback

        traceback.print_exception(error)
    complain(message)
    raise typer.Exit(code) from error


def wants_traceback(context: typer.Context) -> bool:
    # `trunkline --debug serve` and `trunkline serve --debug` mean the same.
    return any(step.params.get("debug") for step in (context, context.find_root()))


def _explained(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{error.filename} is already in use. Stop the program that listens there, or choose "
            "another port with --port N (0 chooses a free port)."
        )
    if error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME):
        return f"{error.filename} is not an address of this machine. Choose another with --host."
    # Python's own text begins with a number.
    reason = error.strerror or str(error) or type(error).__name__
    what = f"{error.filename}: {reason}" if error.filename else reason
    if error.errno == errno.EACCES:
        return (
            f"{what}. Ports below 1024 need privileges: choose another with "
            "--port N; a data folder must be writable: choose another with --data DIR."
        )
    return f"{what}."
