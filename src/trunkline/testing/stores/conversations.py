"""Checks of answers without a task and of notes: records that are read by caller, the latest first,
and deleted by agent and age."""

import asyncio
from itertools import count

from trunkline.model.errors import StoreUnusable
from trunkline.ports.caller_records import (
    ANSWER,
    NOTE,
    answer_id,
    caller_tag,
    note_key,
    put_answer,
)
from trunkline.ports.records import Delete, Key, Put
from trunkline.ports.store import Scope, Store
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    MakeStore,
    assert_refused,
    change,
    create,
    key,
    must_change,
    must_have,
    must_put,
    opened,
)

OTHER = Scope("other", "", "alice")
# Long compared with the time that a check takes.
_MINUTE_MS = 60_000
_numbers = count()


def answer(minute: int, *, scope: Scope = ALICE, context_id: str = "c") -> Put:
    """An answer of that minute, counted from now on. Of two of a minute, the first made is the
    first."""
    made = put_answer(
        scope, context_id, answer_id(minute, next(_numbers), "t"), b'[{"text":"%d"},{}]' % minute
    )
    return _at(minute, made)


def note(
    name: str, text: str, *, scope: Scope = ALICE, context_id: str = "c", minute: int = 1
) -> Put:
    return _at(minute, Put(key=note_key(scope, context_id, name), body=text.encode()))


def _at(minute: int, put: Put) -> Put:
    return Put(key=put.key, body=put.body, tags=put.tags, due_in_ms=minute * _MINUTE_MS)


async def _before(store: Store, minute: int) -> int:
    """The beginning of that minute, by the store's clock."""
    probe = key("probe")
    await must_change(store, Put(key=probe, due_in_ms=0))
    now_ms = (await must_have(store, probe)).due_ms
    await must_change(store, Delete(key=probe))
    assert now_ms is not None
    return now_ms + minute * _MINUTE_MS - _MINUTE_MS // 2


async def _latest(
    store: Store, scope: Scope = ALICE, *, context_id: str = "", limit: int = 9
) -> list[bytes]:
    found = await store.records(
        ANSWER,
        scope=scope.agent,
        tag=caller_tag(scope, context_id),
        newest_first=True,
        limit=limit,
    )
    return [record.body for record in found]


def _bodies(*puts: Put) -> list[bytes]:
    return [put.body for put in puts]


async def _put_each(store: Store, *puts: Put) -> None:
    for each in puts:
        await must_change(store, each)


async def _delete(store: Store, kind: str, minute: int, *, agent: str = "agent", limit: int) -> int:
    before_ms = await _before(store, minute)
    return await store.delete_due(kind, agent, before_ms=before_ms, limit=limit)


async def _count(store: Store, kind: str, minute: int, *, agent: str = "agent") -> int:
    return await store.count_due(kind, agent, before_ms=await _before(store, minute))


async def _text(store: Store, scope: Scope, context_id: str, name: str) -> str | None:
    record = await store.record(note_key(scope, context_id, name))
    return None if record is None else record.body.decode()


async def latest_answers_come_first(store: Store) -> None:
    made = [answer(minute) for minute in (1, 2, 3, 4)]
    await _put_each(store, made[2], made[0], made[3], made[1])
    assert await _latest(store, context_id="c") == _bodies(*made[::-1])
    assert await _latest(store, context_id="c", limit=2) == _bodies(made[3], made[2])


async def of_one_moment_the_last_answer_comes_first(store: Store) -> None:
    first, second = answer(1), answer(1)
    first = Put(key=first.key, body=b"first", tags=first.tags, due_in_ms=0)
    await _put_each(store, second, first)
    assert await _latest(store) == [second.body, b"first"]


async def contexts_and_callers_have_their_own_answers(store: Store) -> None:
    mine, elsewhere = answer(1), answer(2, context_id="other")
    theirs, of_agent = answer(3, scope=BOB), answer(4, scope=OTHER)
    await _put_each(store, mine, elsewhere, theirs, of_agent)
    assert await _latest(store, context_id="c") == _bodies(mine)
    assert await _latest(store) == _bodies(elsewhere, mine)
    assert await _latest(store, BOB, context_id="c") == _bodies(theirs)
    assert await _latest(store, BOB, context_id="other") == []
    assert await _latest(store, OTHER) == _bodies(of_agent)


async def old_records_are_deleted_in_steps_the_oldest_first(store: Store) -> None:
    left = answer(6)
    mixed = [answer(4), answer(2, context_id="other"), answer(1), answer(3, scope=BOB)]
    await _put_each(store, left, *mixed)
    assert await _delete(store, ANSWER, 1, limit=9) == 0
    assert await _count(store, ANSWER, 1) == 0
    assert await _count(store, ANSWER, 5) == 4
    assert await _delete(store, ANSWER, 5, limit=2) == 2
    assert await _count(store, ANSWER, 5) == 2
    assert await _latest(store) == _bodies(left, mixed[0])
    assert await _latest(store, context_id="other") == []
    assert await _latest(store, BOB) == _bodies(mixed[3])
    assert await _delete(store, ANSWER, 5, limit=9) == 2
    assert await _delete(store, ANSWER, 5, limit=9) == 0
    assert await _latest(store, context_id="c") == _bodies(left)
    assert await _latest(store, BOB) == []
    # New records are stored as before.
    new = answer(7)
    await must_change(store, new)
    assert await _latest(store) == _bodies(new, left)


async def agents_keep_their_records_apart(store: Store) -> None:
    mine, theirs = answer(1), answer(1, scope=OTHER)
    await _put_each(store, mine, theirs, note("n", "x"))
    assert await _delete(store, ANSWER, 9, agent="unknown", limit=9) == 0
    assert await _count(store, ANSWER, 9, agent="unknown") == 0
    assert await _count(store, ANSWER, 9) == 1
    assert await _delete(store, ANSWER, 9, limit=9) == 1
    assert await _latest(store) == []
    assert await _latest(store, OTHER) == _bodies(theirs)
    # Another kind of the same agent stays as well.
    assert await _text(store, ALICE, "c", "n") == "x"


async def records_that_wait_for_nothing_never_grow_old(store: Store) -> None:
    lasting = Key(NOTE, "agent", "lasting")
    await must_change(store, Put(key=lasting, body=b"x"))
    assert await _count(store, NOTE, 9) == 0
    assert await _delete(store, NOTE, 9, limit=9) == 0
    await must_have(store, lasting)


async def concurrent_deletions_count_a_record_once(store: Store) -> None:
    made = [answer(minute) for minute in range(8)]
    await _put_each(store, *made)
    before_ms = await _before(store, 7)
    steps = await asyncio.gather(
        *[store.delete_due(ANSWER, "agent", before_ms=before_ms, limit=9) for _ in range(2)]
    )
    assert sum(steps) == 7
    assert await _latest(store) == _bodies(made[7])


async def an_answer_is_not_a_task(store: Store) -> None:
    await must_change(store, answer(1))
    assert await store.unfinished() == ()
    assert await store.scopes() == ()


async def a_task_has_an_owner(store: Store) -> None:
    await must_put(store, create("a"), create("b", scope=BOB))
    assert await store.owner("a") == ALICE
    assert await store.owner("b") == BOB
    assert await store.owner("c") is None


async def a_closed_store_takes_no_record(store: Store) -> None:
    await store.close()
    assert_refused(await change(store, answer(1)), StoreUnusable)


async def answers_survive_a_restart(make: MakeStore) -> None:
    first, second = answer(1), answer(2)
    async with opened(make, "kept") as store:
        await must_change(store, first)
        await must_put(store, create("a"))
    async with opened(make, "kept") as store:
        assert await _latest(store) == _bodies(first)
        assert await store.owner("a") == ALICE
        await must_change(store, second)
        assert await _latest(store) == _bodies(second, first)


async def deleted_records_stay_so_after_a_restart(make: MakeStore) -> None:
    kept = (answer(5), answer(4, context_id="mixed"))
    async with opened(make, "deleted") as store:
        await _put_each(store, answer(1, context_id="old"), answer(2, context_id="mixed"))
    async with opened(make, "deleted") as store:
        await _put_each(store, answer(3, context_id="mixed"), kept[1])
        assert await _delete(store, ANSWER, 4, limit=9) == 3
        await must_change(store, kept[0])
        assert await _latest(store) == _bodies(*kept)
    async with opened(make, "deleted") as store:
        assert await _latest(store) == _bodies(*kept)
        assert await _delete(store, ANSWER, 9, limit=9) == 2
    async with opened(make, "deleted") as store:
        assert await _latest(store) == []


async def a_note_is_kept_and_replaced(store: Store) -> None:
    assert await _text(store, ALICE, "c", "thread") is None
    await must_change(store, note("thread", "1"))
    assert await _text(store, ALICE, "c", "thread") == "1"
    await must_change(store, note("thread", "2 ✓\n"))
    await must_change(store, note("other", "3"))
    assert await _text(store, ALICE, "c", "thread") == "2 ✓\n"
    assert await _text(store, ALICE, "c", "other") == "3"


async def a_deleted_note_is_forgotten(store: Store) -> None:
    thread = note_key(ALICE, "c", "thread")
    await must_change(store, Delete(key=thread))
    await must_change(store, note("thread", "1"))
    await must_change(store, Delete(key=thread))
    assert await _text(store, ALICE, "c", "thread") is None
    assert await _count(store, NOTE, 9) == 0
    await must_change(store, note("thread", "2"))
    assert await _text(store, ALICE, "c", "thread") == "2"


async def contexts_and_callers_have_their_own_notes(store: Store) -> None:
    await must_change(store, note("thread", "mine"))
    await must_change(store, note("thread", "elsewhere", context_id="other"))
    await must_change(store, note("thread", "theirs", scope=BOB))
    assert await _text(store, ALICE, "c", "thread") == "mine"
    assert await _text(store, ALICE, "other", "thread") == "elsewhere"
    assert await _text(store, BOB, "c", "thread") == "theirs"
    assert await _text(store, BOB, "other", "thread") is None


async def notes_of_one_commit_take_effect_in_order(store: Store) -> None:
    back, gone = note("other", "1"), Delete(key=note_key(ALICE, "c", "other"))
    changes = (note("thread", "1"), note("thread", "2"), back, gone)
    results = await asyncio.gather(*(change(store, each) for each in changes))
    assert results == [None] * 4
    assert await _text(store, ALICE, "c", "thread") == "2"
    assert await _text(store, ALICE, "c", "other") is None


async def a_note_is_as_old_as_it_was_last_kept(store: Store) -> None:
    for number in range(5):
        await must_change(store, note(f"n{number}", "x", minute=number))
    await must_change(store, note("theirs", "x", scope=BOB, minute=9))
    await must_change(store, note("another's", "x", scope=OTHER, minute=1))
    # Kept again, so not old any more.
    await must_change(store, note("n0", "y", minute=9))
    assert await _delete(store, NOTE, 1, limit=9) == 0
    assert await _delete(store, NOTE, 4, limit=2) == 2
    assert await _delete(store, NOTE, 4, limit=9) == 1
    assert await _delete(store, NOTE, 4, limit=9) == 0
    left = [await _text(store, ALICE, "c", f"n{number}") for number in range(5)]
    assert left == ["y", None, None, None, "x"]
    assert await _text(store, BOB, "c", "theirs") == "x"
    assert await _text(store, OTHER, "c", "another's") == "x"


async def notes_survive_a_restart(make: MakeStore) -> None:
    async with opened(make, "notes") as store:
        await must_change(store, note("thread", "1", minute=5))
        await must_change(store, note("gone", "1"))
        await must_change(store, note("old", "1", minute=2))
    async with opened(make, "notes") as store:
        assert await _text(store, ALICE, "c", "thread") == "1"
        await must_change(store, Delete(key=note_key(ALICE, "c", "gone")))
    async with opened(make, "notes") as store:
        assert await _text(store, ALICE, "c", "gone") is None
        assert await _text(store, ALICE, "c", "thread") == "1"
        assert await _delete(store, NOTE, 6, limit=9) == 2
        await must_change(store, note("thread", "2", minute=6))
    async with opened(make, "notes") as store:
        assert await _text(store, ALICE, "c", "thread") == "2"
        assert await _text(store, ALICE, "c", "old") is None
        assert await _delete(store, NOTE, 9, limit=9) == 1
    async with opened(make, "notes") as store:
        assert await _text(store, ALICE, "c", "thread") is None
