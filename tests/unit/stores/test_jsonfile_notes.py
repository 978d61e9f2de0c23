"""The notes of backends in the folder of JSON files."""

import os
from pathlib import Path

import pytest

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Scope
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.jsonfile.changes import Noted
from trunkline.stores.jsonfile.conversations import NotesFile
from trunkline.stores.jsonfile.state import State
from trunkline.testing import FakeClock
from trunkline.testing.stores.conversations import note
from trunkline.testing.stores.kit import ALICE, create, must_put, opened


def store_in(folder: Path, *, log_bytes: int = 1 << 24) -> JsonFileStore:
    adopts = Scope("", "", "")
    return JsonFileStore(folder, clock=FakeClock(), adopts=adopts, log_bytes=log_bytes)


async def test_the_file_is_there_as_long_as_there_are_notes(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    async with opened(lambda _: store_in(tmp_path), "") as store:
        await store.keep(note("thread", "1"))
    assert len(file.read_text().splitlines()) == 2
    async with opened(lambda _: store_in(tmp_path), "") as store:
        await store.keep(note("thread", ""))
    assert not file.exists()


async def test_notes_go_to_their_file_when_the_log_is_full(tmp_path: Path) -> None:
    store = store_in(tmp_path, log_bytes=2000)
    await store.open()
    for number in range(200):
        await store.keep(note(f"n{number % 10}", f"{number}"))
        await must_put(store, create(f"t{number}"))
    assert "notes.jsonl" in os.listdir(tmp_path)
    await store.close()
    async with opened(lambda _: store_in(tmp_path), "") as again:
        kept = [await again.kept(ALICE, "c", f"n{number}") for number in range(10)]
        assert kept == [f"{number}" for number in range(190, 200)]


def noted(n: int, text: str) -> Noted:
    return Noted(n=n, scope=ALICE, context_id="c", name="thread", text=text, at_ms=1)


def test_a_note_that_comes_while_the_file_is_written_is_still_due() -> None:
    state = State(FakeClock())
    state.apply(noted(1, "1"))
    state.retire()
    (captured,) = state.take_due(9)
    state.apply(noted(2, "2"))
    state.retire()
    state.written(captured, 0)
    (later,) = state.take_due(9)
    assert isinstance(later.copy, NotesFile)
    assert [(each.n, each.text) for each in later.copy.notes] == [(2, "2")]
    state.written(later, 0)
    assert state.take_due(9) == []


async def test_a_damaged_file_is_named_with_the_line(tmp_path: Path) -> None:
    async with opened(lambda _: store_in(tmp_path), "") as store:
        await store.keep(note("thread", "1"))
    file = tmp_path / "notes.jsonl"
    file.write_text(file.read_text().splitlines()[0] + "\n{broken\n")
    with pytest.raises(StoreUnusable, match=r"notes\.jsonl is damaged in line 2 .*take out"):
        await store_in(tmp_path).open()
