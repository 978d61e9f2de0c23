"""The files of conversations: a line that was cut off, written twice, or damaged."""

from pathlib import Path

import pytest
from tests.unit.stores.jsonfiles import names, store_on

from trunkline.model.errors import StoreUnusable
from trunkline.ports.store import Exchange
from trunkline.stores.jsonfile.blobs import to_json
from trunkline.stores.jsonfile.changes import Said
from trunkline.stores.jsonfile.conversations import ConversationFiles, Place
from trunkline.testing.stores.kit import ALICE, BOB, opened

PLACE = Place(ALICE, "c")


def said(n: int) -> Said:
    return Said(n, ALICE, "c", n, to_json(b"[%d]" % n))


def exchange(n: int) -> Exchange:
    return Exchange(ALICE, "c", n, b"[%d]" % n)


def test_what_was_written_twice_is_read_once(tmp_path: Path) -> None:
    files = ConversationFiles(tmp_path)
    files.append({PLACE: [said(1), said(2)]})
    files.append({PLACE: [said(1), said(2), said(3)]})
    assert files.read({PLACE: [said(3), said(4)]}, 9) == tuple(exchange(n) for n in (4, 3, 2, 1))
    assert files.load_all() == {PLACE: 3}


def test_line_that_was_cut_off_is_no_line(tmp_path: Path) -> None:
    files = ConversationFiles(tmp_path)
    files.append({PLACE: [said(1)]})
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"type":"exchange","n":2')
    assert files.read({PLACE: []}, 9) == (exchange(1),)
    files.append({PLACE: [said(2)]})
    assert files.read({PLACE: []}, 9) == (exchange(2), exchange(1))


async def test_damaged_line_is_named(tmp_path: Path) -> None:
    ConversationFiles(tmp_path).append({PLACE: [said(1), said(2)]})
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
