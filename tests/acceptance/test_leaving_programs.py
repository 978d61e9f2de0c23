"""A turn that is left at any moment leaves no program behind."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.acceptance.test_acp import ASKED
from tests.acceptance.test_command import Talk
from tests.programs import backends as make

from trunkline.backends.output_channel import MAX_WAITING
from trunkline.model.outputs import Question
from trunkline.model.values import Part
from trunkline.ports.backend import TurnRequest
from trunkline.testing import FakeSession, run_turn

# So many pieces that one is read, as many wait as may, and the end has no place.
PIECES = [str(number) for number in range(MAX_WAITING + 1)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # It says back what it is told, after two words of its own.
        ("claude", PIECES[2:]),
        ("claude-kept", PIECES[2:]),
        ("acp", ["pieces", *PIECES]),
    ],
)
async def test_a_cancel_while_the_end_waits_for_its_reader(name: str, words: list[str]) -> None:
    talk = Talk(make.MAKE[name](max_processes=1))
    turn = talk.turn(" ".join(words))
    outputs = talk.backend.start(turn)
    await anext(outputs)
    await asyncio.sleep(0.5)
    await talk.backend.cancel(turn.run_id)
    assert await talk.say("hello", context_id="another") == "You said hello"
    await talk.backend.close()


def remove_folders(parent: Path) -> None:
    for folder in parent.glob("trunkline-*"):
        shutil.rmtree(folder)


async def test_a_kept_program_whose_folder_is_gone_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    talk = Talk(make.kept_claude(max_processes=1, files="folder"))
    file = Part(raw=b"\x00", filename="a.bin", media_type="application/zip")
    await talk.say("hello", file)
    remove_folders(tmp_path)
    with pytest.raises(FileNotFoundError):
        await talk.say("hello", file)
    assert await talk.say("hello", context_id="another") == "You said hello"
    await talk.backend.close()


class SlowSession(FakeSession):
    """Keeps a note of that name only when it is let."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self._slow = slow
        self.is_slow = False
        self.begun = asyncio.Event()

    async def keep(self, name: str, text: str) -> None:
        if self.is_slow and name.startswith(self._slow):
            self.begun.set()
            await asyncio.Event().wait()
        await super().keep(name, text)


async def cancel_while_it_keeps(talk: Talk, session: SlowSession, turn: TurnRequest) -> None:
    session.is_slow = True
    reading = asyncio.ensure_future(run_turn(talk.backend, turn))
    await session.begun.wait()
    await talk.backend.cancel(turn.run_id)
    await reading
    session.is_slow = False


@pytest.mark.parametrize(("words", "note"), [("hello", "acp.session"), ("ask", "acp.asked")])
async def test_a_cancel_while_something_is_noted(words: str, note: str) -> None:
    session = SlowSession(note)
    talk = Talk(make.acp(max_processes=1), session=session)
    await cancel_while_it_keeps(talk, session, talk.turn(words))
    assert await talk.say("hello", context_id="another") == "You said hello"
    await talk.backend.close()


async def test_a_cancel_as_the_answer_to_a_question_comes() -> None:
    session = SlowSession("acp.asked")
    talk = Talk(make.acp(max_processes=1), session=session)
    outputs = await run_turn(talk.backend, talk.turn("ask"))
    assert isinstance(outputs[-1], Question)
    await cancel_while_it_keeps(talk, session, talk.turn("yes", history=ASKED))
    assert await talk.say("hello", context_id="another") == "You said hello"
    await talk.backend.close()
