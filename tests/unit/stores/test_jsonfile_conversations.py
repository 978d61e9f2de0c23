"""The files of conversations: a line that was cut off, written twice, damaged, or forgotten."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import names, store_on

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Exchange
from trunkline.stores.jsonfile.changes import ConversationChange, Forgot, Said, to_json
from trunkline.stores.jsonfile.conversations import Conversation, find_exchanges
from trunkline.stores.jsonfile.records import Records
from trunkline.stores.jsonfile.state import State
from trunkline.testing import FakeClock
from trunkline.testing.stores.kit import ALICE, BOB, opened


def said(n: int) -> Said:
    return Said(n, ALICE, "c", n, to_json(b"[%d]" % n))


def exchange(n: int) -> Exchange:
    return Exchange(ALICE, "c", n, b"[%d]" % n)


class Files:
    """The file of one conversation."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._records = Records(folder, adopts=ALICE)
        self._pool = pool

    def write(self, *changes: ConversationChange) -> None:
        self._records.write_all([Conversation(ALICE, "c", list(changes))], self._pool)

    def read(self, *pending: Said) -> tuple[Exchange, ...]:
        conversation = Conversation(ALICE, "c", list(pending))
        return find_exchanges(self._folder, range(9, 0, -1), [conversation])

    def load(self) -> list[int]:
        state = State(FakeClock())
        self._records.remove_temporaries()
        self._records.load(state)
        assert set(state.exchanges.scopes()) <= {ALICE}
        return [spot.n for spot in state.exchanges.of(Conversation(ALICE, "c"))]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    with ThreadPoolExecutor(1) as pool:
        yield Files(tmp_path, pool)


def test_what_is_said_while_the_file_is_written_is_still_due() -> None:
    state = State(FakeClock())
    state.apply(said(1))
    state.retire()
    (captured,) = state.take_due(9)
    state.apply(said(2))
    state.retire()
    state.written(captured, 0)
    assert not state.is_retired
    (later,) = state.take_due(9)
    assert isinstance(later.copy, Conversation)
    assert later.copy.pending == [said(2)]
    state.apply(said(3))
    # What came after the log was closed does not hold it up.
    state.written(later, 0)
    assert state.is_retired


def test_what_was_written_twice_is_read_once(files: Files) -> None:
    files.write(said(1), said(2))
    files.write(said(1), said(2), said(3))
    assert files.read(said(3), said(4)) == tuple(exchange(n) for n in (4, 3, 2, 1))
    assert files.load() == [1, 2, 3]


def test_line_that_was_cut_off_is_no_line(tmp_path: Path, files: Files) -> None:
    files.write(said(1))
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"type":"exchange","n":2')
    assert files.read() == (exchange(1),)
    files.write(said(2))
    assert files.read() == (exchange(2), exchange(1))


def test_what_was_forgotten_is_taken_out_of_the_file(tmp_path: Path, files: Files) -> None:
    files.write(said(1), said(2))
    files.write(said(3), Forgot(4, ALICE, "c", (1, 3)), said(5))
    assert files.read() == (exchange(5), exchange(2))
    files.write(Forgot(6, ALICE, "c", (2, 5)))
    assert names(tmp_path) == set()


def test_what_a_crash_left_half_written_goes(tmp_path: Path, files: Files) -> None:
    files.write(said(1))
    (name,) = names(tmp_path)
    (tmp_path / f"{name}.tmp").write_bytes(b'{"type"')
    assert files.load() == [1]
    assert names(tmp_path) == {name}


async def test_damaged_line_is_named(tmp_path: Path, files: Files) -> None:
    files.write(said(1), said(2))
    (name,) = names(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes().replace(b'"n":2', b'"n":"'))
    with pytest.raises(StoreUnusable) as refused:
        await store_on(tmp_path).open()
    assert f"{path} is damaged in line 2" in str(refused.value)


async def test_each_conversation_has_a_file_of_its_own(tmp_path: Path) -> None:
    exchanges = [
        Exchange(scope, context, 1, b"[]") for scope in (ALICE, BOB) for context in ("c", "d")
    ]
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for each in exchanges:
            await store.remember(each)
    assert len(names(tmp_path)) == 4
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for each in exchanges:
            found = await store.exchanges(each.scope, context_id=each.context_id, limit=9)
            assert found == (each,)


def lines(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*.jsonl"))


async def test_file_is_written_anew_when_half_of_it_is_forgotten(tmp_path: Path) -> None:
    """To do so for every exchange that goes would cost more the longer a conversation is."""
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for n in range(10):
            await store.remember(exchange(n))
    async with opened(lambda _: store_on(tmp_path), "") as store:
        theirs = Exchange(BOB, "c", 99, b"[]")
        await store.remember(theirs)
        for before, left in ((1, 10), (4, 10), (5, 5), (10, 0)):
            await store.forget_exchanges(ALICE.agent, before_ms=before, limit=9)
            found = await store.exchanges(ALICE, limit=20)
            assert found == tuple(exchange(n) for n in reversed(range(before, 10)))
            # Behind the file in line.
            assert await store.exchanges(BOB, limit=1) == (theirs,)
            assert lines(tmp_path) == left


async def test_a_few_that_were_forgotten_are_gone_from_the_file_in_the_end(tmp_path: Path) -> None:
    async with opened(lambda _: store_on(tmp_path), "") as store:
        for n in range(10):
            await store.remember(exchange(n))
        await store.forget_exchanges(ALICE.agent, before_ms=1, limit=9)
    assert lines(tmp_path) == 9
