"""Exit codes, which scripts may rely on, and how an error ends a command with one of them."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

import typer

from trunkline.cli.output import has_colours
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.values import TaskState


class Exit(IntEnum):
    """A code keeps its meaning for good; a new case gets a new code."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> "Exit":
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made

    DONE = 0, "done"
    FAILED = 1, "failed while running: port in use, database locked or damaged, disk full"
    WRONG_USE = 2, "wrong usage or configuration; nothing was sent"
    TASK_FAILED = 3, "the task failed"
    TASK_REJECTED = 4, "the agent rejected the task"
    TASK_CANCELED = 5, "the task was canceled"
    INPUT_REQUIRED = 6, "the agent asks a question, and the task waits for the answer"
    AUTH_REQUIRED = 7, "the agent needs a sign-in before it continues"
    NOT_FOUND = 8, "there is no such task, or it belongs to another caller"
    UNREACHABLE = 9, "the agent cannot be reached, or the connection was lost"
    NO_ACCESS = 10, "the credential is missing or not accepted"
    REFUSED = 11, "the agent refused the request for another reason"
    NOT_UNDERSTOOD = 12, "no A2A agent at this address, an invalid answer, or no common version"
    DAMAGED = 13, "`db check` found damage in a store"
    TOO_LARGE = 14, "the answer is larger than the limit; the task continues"
    NOT_RUNNING = 15, "no gateway is running on this store"
    REPLACED = 16, "another gateway has attached the agent since"
    TIMEOUT = 124, "a time limit was reached; the task continues"
    INTERRUPTED = 130, "interrupted with Ctrl+C; the task continues"
    PIPE_CLOSED = 141, "the reader of the output is gone"


_STATES: dict[TaskState, Exit] = {
    TaskState.FAILED: Exit.TASK_FAILED,
    TaskState.REJECTED: Exit.TASK_REJECTED,
    TaskState.CANCELED: Exit.TASK_CANCELED,
    TaskState.INPUT_REQUIRED: Exit.INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED: Exit.AUTH_REQUIRED,
}


def exit_of(state: TaskState | None) -> Exit:
    """The code of a command that waited for a task, or for an answer without one."""
    return Exit.DONE if state is None else _STATES.get(state, Exit.DONE)


@contextmanager
def reported(context: typer.Context) -> Iterator[None]:
    """Print the known errors of a command as one paragraph and exit.

    A configuration error exits with 2, any other known error with 1, and a closed stdout with
    141 and no text. Bugs keep their traceback; --debug adds one to known errors.
    """
    try:
        yield
    except BrokenPipeError as error:
        # The interpreter flushes stdout once more when it ends, which must not fail again.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.PIPE_CLOSED) from error
    except (TrunklineError, OSError) as error:
        if wants_traceback(context):
            import traceback

            traceback.print_exception(error)
        complain(error.message if isinstance(error, TrunklineError) else _explained(error))
        code = Exit.WRONG_USE if isinstance(error, ConfigError) else Exit.FAILED
        raise typer.Exit(code) from error


def complain(message: str) -> None:
    """Print an error on stderr."""
    label = "\x1b[1;31merror:\x1b[0m" if has_colours(sys.stderr) else "error:"
    print(f"{label} {message}", file=sys.stderr, flush=True)


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
    # `str(error)` begins with the number of the error.
    reason = error.strerror or str(error) or type(error).__name__
    what = f"{error.filename}: {reason}" if error.filename else reason
    if error.errno == errno.EACCES:
        return (
            f"{what}. Ports below 1024 need privileges: choose another with "
            "--port N; a data folder must be writable: choose another with --data DIR."
        )
    return f"{what}."
