"""Sentences for the caller when a program fails: no paths, no stderr."""

import signal

from trunkline.backends.output_channel import in_bytes

CANNOT_START = (
    "The agent's program could not be started. The operator finds the reason in the gateway's log."
)
NO_ANSWER = "The agent's program ended without an answer."
STUCK = "The agent's program closed its output but did not end, so it was stopped."
MODEL_FAILED = (
    "The agent could not finish: its model answered with an error. "
    "The operator finds the details in the gateway's log."
)


def busy(maximum: int) -> str:
    return f"The agent is busy: it runs {maximum} programs at a time, no more. Try again later."


def timed_out(seconds: float) -> str:
    return f"The agent did not finish within {seconds:g} s, so it was stopped."


def line_too_long(max_bytes: int) -> str:
    return f"The agent wrote a line of more than {in_bytes(max_bytes)}, so it was stopped."


def takes_no_file(media_type: str) -> str:
    return f"The agent takes no files of the type {media_type}."


def ended(code: int) -> str:
    """The program ended before its answer was complete."""
    return exited(code) if code else NO_ANSWER


def exited(code: int) -> str:
    """The program ended too early, or with a code that says it failed."""
    if code >= 0:
        return f"The agent's program failed with exit code {code}."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"The agent's program was ended by {name} before it had finished."
