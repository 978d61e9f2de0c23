"""Notes that outlive the gateway: the OpenClaw run of a turn, and the open question of a task."""

from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.backends.openclaw.frames import QuestionEvent
from trunkline.backends.openclaw.handshake import Boot
from trunkline.ports.backend import Notes

_MOST: Final = 10_000


class RunNote(Struct, frozen=True, kw_only=True):
    """A run that OpenClaw may have."""

    openclaw_id: str
    session_key: str
    boot: Boot
    sent_ms: int
    question: QuestionEvent | None = None


_decode = msgspec.json.Decoder(RunNote)
_encode = msgspec.json.Encoder().encode


class MemoryNotes:
    """The latest notes of turns without a session, as in a test of the backend alone."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def recall(self, name: str) -> str | None:
        return self._texts.get(name)

    async def keep(self, name: str, text: str) -> None:
        self._texts.pop(name, None)
        if text:
            self._texts[name] = text
        if len(self._texts) > _MOST:
            self._texts.popitem(last=False)


def run_name(run_id: str) -> str:
    """The note of the run of a turn, kept before it is sent."""
    return f"openclaw run {run_id}"


def question_name(task_id: str) -> str:
    """The note of the run whose question the next message of the task answers."""
    return f"openclaw question {task_id}"


async def recall(notes: Notes, name: str) -> RunNote | None:
    text = await notes.recall(name)
    try:
        return _decode.decode(text) if text else None
    except msgspec.DecodeError:
        return None


async def keep(notes: Notes, name: str, note: RunNote | None) -> None:
    """None removes the note."""
    await notes.keep(name, "" if note is None else _encode(note).decode())
