"""What is kept of an upstream task, so that a restart finds it again."""

from typing import TypeAlias

import msgspec
from msgspec import Struct


class Kept(Struct, frozen=True, omit_defaults=True):
    """Of one task of ours: the run that spoke to the upstream last, and the task there."""

    # Kept before the message is sent: without a task, nobody knows whether it arrived.
    run: str
    task: str = ""
    context: str = ""
    # The upstream waits for an answer.
    waits: bool = False
    # The run gives the answer that an earlier one was asked for.
    answers: bool = False


class Ask(Struct, frozen=True):
    """Send the message, as the answer to a task that waits (`task`), or as a new one that
    refers to the one before (`after`)."""

    task: str = ""
    context: str = ""
    after: str = ""


class Follow(Struct, frozen=True):
    """The upstream has the message; follow its task."""

    task: str
    context: str


class LookFor(Struct, frozen=True):
    """The message may have arrived; look whether the upstream knows it."""

    context: str = ""


class LookAt(Struct, frozen=True):
    """The answer may have arrived; the task tells."""

    task: str
    context: str


Next: TypeAlias = Ask | Follow | LookFor | LookAt

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


def task_of(run_id: str) -> str:
    """The task that a run belongs to, also one that has no task yet."""
    return run_id.partition(".")[0]


def name_of(run_id: str) -> str:
    return f"task {task_of(run_id)}"


def written(kept: Kept) -> str:
    return _encode(kept).decode()


def read(text: str | None) -> Kept | None:
    if not text:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return None


def next_of(kept: Kept | None, run_id: str) -> Next:
    """What a turn does first, by what was kept of its task."""
    if kept is None:
        return Ask()
    if kept.run != run_id:
        # Of an earlier turn of the task: it asked something, or it has ended.
        if kept.waits:
            return Ask(task=kept.task, context=kept.context)
        return Ask(context=kept.context, after=kept.task)
    if not kept.task:
        return LookFor(kept.context)
    if kept.answers:
        return LookAt(kept.task, kept.context)
    return Follow(kept.task, kept.context)
