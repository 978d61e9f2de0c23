"""Notes that outlive the gateway: the OpenClaw run of a turn, and the open question of a task."""

from collections import OrderedDict
from typing import Final

import msgspec
from msgspec import Struct

from trunkline.backends.openclaw.frames import QuestionEvent
from trunkline.backends.openclaw.handshake import Boot
from trunkline.ports.backend import Notes, TurnRequest

_MOST: Final = 10_000


class RunNote(Struct, frozen=True, kw_only=True):
    """A run that OpenClaw may have; kept before it is sent."""

    openclaw_id: str
    session_key: str
    boot: Boot
    sent_ms: int
    question: QuestionEvent | None = None


_decode = msgspec.json.Decoder(RunNote)
_encode = msgspec.json.Encoder().encode


class RunNotes:
    """The notes of one turn, kept with its session."""

    def __init__(self, turn: TurnRequest, notes: Notes) -> None:
        self._notes = notes
        self._run = _run_name(turn.run_id)
        self._question = f"openclaw question {turn.task_id}"

    async def run(self) -> RunNote | None:
        """The run of this turn, where one was sent before a restart."""
        return await _recall(self._notes, self._run)

    async def question(self) -> RunNote | None:
        """The run that waits for an answer to be given on the task."""
        return await _recall(self._notes, self._question)

    async def keep_run(self, note: RunNote) -> None:
        await self._notes.keep(self._run, _text(note))

    async def keep_question(self, note: RunNote) -> None:
        await self._notes.keep(self._question, _text(note))

    async def forget_question(self) -> None:
        await self._notes.keep(self._question, "")


class MemoryNotes:
    """For turns without a session, as in a test of the backend alone: the latest of them."""

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


async def note_of_run(notes: Notes, run_id: str) -> RunNote | None:
    """The note of a run, found by its id alone."""
    return await _recall(notes, _run_name(run_id))


async def _recall(notes: Notes, name: str) -> RunNote | None:
    text = await notes.recall(name)
    if not text:
        return None
    try:
        return _decode.decode(text)
    except msgspec.DecodeError:
        return None


def _text(note: RunNote) -> str:
    return _encode(note).decode()


def _run_name(run_id: str) -> str:
    return f"openclaw run {run_id}"
