"""Checks of exchanges and notes: data of a context that belongs to no task."""

import asyncio

from trunkline.ports.store import Exchange, KeptNote, Scope, Store
from trunkline.testing.stores.kit import ALICE, BOB, COMPLETED, MakeStore, create, must_put, opened


def exchange(number: int, *, scope: Scope = ALICE, context_id: str = "c") -> Exchange:
    return Exchange(scope, context_id, number, b'[{"text":"%d"},{}]' % number)


async def _remember(store: Store, *exchanges: Exchange) -> None:
    for each in exchanges:
        await store.remember(each)


async def exchanges_come_back_latest_first(store: Store) -> None:
    await _remember(store, *map(exchange, range(5)))
    assert await store.exchanges(ALICE, context_id="c", limit=9) == tuple(
        exchange(number) for number in (4, 3, 2, 1, 0)
    )
    assert await store.exchanges(ALICE, context_id="c", limit=2) == (exchange(4), exchange(3))


async def exchanges_of_one_moment_keep_their_order(store: Store) -> None:
    first, second = Exchange(ALICE, "c", 1, b"[1]"), Exchange(ALICE, "c", 1, b"[2]")
    await _remember(store, first, second)
    assert await store.exchanges(ALICE, limit=9) == (second, first)


async def exchanges_are_in_the_order_of_their_time(store: Store) -> None:
    """Also when a clock was set back."""
    await _remember(store, *map(exchange, (5, 2, 7, 3)), exchange(4, context_id="other"))
    assert await store.exchanges(ALICE, context_id="c", limit=3) == (
        exchange(7), exchange(5), exchange(3),
    )  # fmt: skip
    latest = await store.exchanges(ALICE, limit=3)
    assert latest == (exchange(7), exchange(5), exchange(4, context_id="other"))


async def exchanges_belong_to_a_scope_and_a_context(store: Store) -> None:
    mine, elsewhere = exchange(1), exchange(2, context_id="other")
    theirs = exchange(3, scope=BOB)
    await _remember(store, mine, elsewhere, theirs)
    assert await store.exchanges(ALICE, context_id="c", limit=9) == (mine,)
    assert await store.exchanges(ALICE, limit=9) == (elsewhere, mine)
    assert await store.exchanges(BOB, context_id="c", limit=9) == (theirs,)
    assert await store.exchanges(BOB, context_id="other", limit=9) == ()


async def old_exchanges_are_forgotten_in_steps(store: Store) -> None:
    await _remember(store, *map(exchange, (4, 1, 6)))
    await _remember(store, exchange(2, context_id="other"), exchange(3, scope=BOB))
    await must_put(store, create("a", state=COMPLETED, status_ms=1))
    assert await store.forget_exchanges("agent", before_ms=1, limit=9) == 0
    assert await store.count_exchanges("agent", before_ms=1) == 0
    assert await store.count_exchanges("agent", before_ms=5) == 4
    assert await store.forget_exchanges("agent", before_ms=5, limit=2) == 2
    assert await store.count_exchanges("agent", before_ms=5) == 2
    # The store forgot the oldest exchanges of all callers.
    assert await store.exchanges(ALICE, limit=9) == (exchange(6), exchange(4))
    assert await store.exchanges(ALICE, context_id="other", limit=9) == ()
    assert await store.exchanges(BOB, limit=9) == (exchange(3, scope=BOB),)
    assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 2
    assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 0
    assert await store.exchanges(ALICE, context_id="c", limit=9) == (exchange(6),)
    assert await store.exchanges(BOB, limit=9) == ()
    # Tasks stay, and conversations continue.
    assert await store.owner("a") == ALICE
    await _remember(store, exchange(7), exchange(8, context_id="other"))
    assert await store.exchanges(ALICE, limit=9) == (
        exchange(8, context_id="other"), exchange(7), exchange(6),
    )  # fmt: skip


async def of_one_moment_what_came_first_is_forgotten_first(store: Store) -> None:
    first, second = Exchange(ALICE, "c", 1, b"[1]"), Exchange(ALICE, "d", 1, b"[2]")
    await _remember(store, first, second)
    assert await store.forget_exchanges("agent", before_ms=2, limit=1) == 1
    assert await store.exchanges(ALICE, limit=9) == (second,)


async def exchanges_of_agents_are_forgotten_apart(store: Store) -> None:
    other = Scope("other", "", "alice")
    mine, theirs = exchange(1), exchange(1, scope=other)
    await _remember(store, mine, theirs)
    # Maintenance finds their scopes, although there is no task.
    assert set(await store.scopes()) == {ALICE, other}
    assert await store.forget_exchanges("unknown", before_ms=9, limit=9) == 0
    assert await store.count_exchanges("unknown", before_ms=9) == 0
    assert await store.count_exchanges("agent", before_ms=9) == 1
    assert await store.forget_exchanges("agent", before_ms=9, limit=9) == 1
    assert await store.scopes() == (other,)
    assert await store.exchanges(other, limit=9) == (theirs,)


async def concurrent_forgets_count_an_exchange_once(store: Store) -> None:
    await _remember(store, *map(exchange, range(8)))
    steps = await asyncio.gather(
        *[store.forget_exchanges("agent", before_ms=7, limit=9) for _ in range(2)]
    )
    assert sum(steps) == 7
    assert await store.exchanges(ALICE, limit=9) == (exchange(7),)


async def an_exchange_is_not_a_task(store: Store) -> None:
    await store.remember(exchange(1))
    await store.heartbeat("n", now_ms=0, ttl_ms=10)
    assert await store.claim("n", now_ms=1000, limit=9) == ()


async def a_task_has_an_owner(store: Store) -> None:
    await must_put(store, create("a"), create("b", scope=BOB))
    assert await store.owner("a") == ALICE
    assert await store.owner("b") == BOB
    assert await store.owner("c") is None


async def exchanges_survive_a_restart(make: MakeStore) -> None:
    async with opened(make, "kept") as store:
        await store.remember(exchange(1))
        await must_put(store, create("a"))
    async with opened(make, "kept") as store:
        assert await store.exchanges(ALICE, limit=9) == (exchange(1),)
        assert await store.owner("a") == ALICE
        await store.remember(exchange(2))
        assert await store.exchanges(ALICE, limit=9) == (exchange(2), exchange(1))


async def what_was_forgotten_stays_so_after_a_restart(make: MakeStore) -> None:
    kept = (exchange(5), exchange(4, context_id="mixed"))
    async with opened(make, "forgotten") as store:
        await _remember(store, exchange(1, context_id="old"), exchange(2, context_id="mixed"))
    async with opened(make, "forgotten") as store:
        await _remember(store, exchange(3, context_id="mixed"), kept[1])
        assert await store.forget_exchanges("agent", before_ms=4, limit=9) == 3
        await store.remember(kept[0])
        assert await store.exchanges(ALICE, limit=9) == kept
    async with opened(make, "forgotten") as store:
        assert await store.exchanges(ALICE, limit=9) == kept
        assert await store.forget_exchanges("agent", before_ms=9, limit=9) == 2
    async with opened(make, "forgotten") as store:
        assert await store.exchanges(ALICE, limit=9) == ()
        assert await store.scopes() == ()


def note(
    name: str, text: str, *, scope: Scope = ALICE, context_id: str = "c", at_ms: int = 1
) -> KeptNote:
    return KeptNote(scope=scope, context_id=context_id, name=name, text=text, at_ms=at_ms)


async def a_note_is_what_was_kept_last(store: Store) -> None:
    assert await store.kept(ALICE, "c", "thread") is None
    await store.keep(note("thread", "1"))
    assert await store.kept(ALICE, "c", "thread") == "1"
    await store.keep(note("thread", "2 ✓\n"))
    await store.keep(note("other", "3"))
    assert await store.kept(ALICE, "c", "thread") == "2 ✓\n"
    assert await store.kept(ALICE, "c", "other") == "3"


async def an_empty_note_is_forgotten(store: Store) -> None:
    await store.keep(note("thread", ""))
    await store.keep(note("thread", "1"))
    await store.keep(note("thread", ""))
    assert await store.kept(ALICE, "c", "thread") is None
    assert await store.scopes() == ()
    await store.keep(note("thread", "2"))
    assert await store.kept(ALICE, "c", "thread") == "2"


async def notes_belong_to_a_scope_and_a_context(store: Store) -> None:
    await store.keep(note("thread", "mine"))
    await store.keep(note("thread", "elsewhere", context_id="other"))
    await store.keep(note("thread", "theirs", scope=BOB))
    assert await store.kept(ALICE, "c", "thread") == "mine"
    assert await store.kept(ALICE, "other", "thread") == "elsewhere"
    assert await store.kept(BOB, "c", "thread") == "theirs"
    assert await store.kept(BOB, "other", "thread") is None
    assert set(await store.scopes()) == {ALICE, BOB}


async def notes_kept_together_take_effect_in_order(store: Store) -> None:
    first, second = note("thread", "1"), note("thread", "2")
    gone, back = note("other", ""), note("other", "back")
    await asyncio.gather(*(store.keep(each) for each in (first, second, back, gone)))
    await must_put(store, create("a"))
    assert await store.kept(ALICE, "c", "thread") == "2"
    assert await store.kept(ALICE, "c", "other") is None


async def old_notes_are_forgotten_in_steps(store: Store) -> None:
    for number in range(5):
        await store.keep(note(f"n{number}", "x", at_ms=number))
    await store.keep(note("theirs", "x", scope=BOB, at_ms=9))
    await store.keep(note("another's", "x", scope=Scope("other", "", "alice"), at_ms=1))
    # A note that is kept again is young again.
    await store.keep(note("n0", "y", at_ms=9))
    assert await store.forget_notes("agent", before_ms=1, limit=9) == 0
    assert await store.forget_notes("agent", before_ms=4, limit=2) == 2
    assert await store.forget_notes("agent", before_ms=4, limit=9) == 1
    assert await store.forget_notes("agent", before_ms=4, limit=9) == 0
    left = [await store.kept(ALICE, "c", f"n{number}") for number in range(5)]
    assert left == ["y", None, None, None, "x"]
    assert await store.kept(BOB, "c", "theirs") == "x"
    assert await store.kept(Scope("other", "", "alice"), "c", "another's") == "x"


async def notes_survive_a_restart(make: MakeStore) -> None:
    async with opened(make, "durable-notes") as store:
        await store.keep(note("thread", "1", at_ms=5))
        await store.keep(note("gone", "1"))
        await store.keep(note("old", "1", at_ms=2))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") == "1"
        await store.keep(note("gone", ""))
        await must_put(store, create("a"))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "gone") is None
        assert await store.kept(ALICE, "c", "thread") == "1"
        # A file keeps them in the order in which they were kept.
        assert await store.forget_notes("agent", before_ms=6, limit=9) == 2
        await store.keep(note("thread", "2", at_ms=6))
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") == "2"
        assert await store.kept(ALICE, "c", "old") is None
        assert await store.forget_notes("agent", before_ms=9, limit=9) == 1
    async with opened(make, "durable-notes") as store:
        assert await store.kept(ALICE, "c", "thread") is None
