"""Answers that made no task, and whose a task is."""

import asyncio

from trunkline.ports.store import Exchange, Scope
from trunkline.testing.stores.kit import ALICE, BOB, COMPLETED, MakeStore, create, must_put, opened


def exchange(number: int, *, scope: Scope = ALICE, context_id: str = "c") -> Exchange:
    return Exchange(scope, context_id, number, b'[{"text":"%d"},{}]' % number)


async def exchanges_come_back_latest_first(make: MakeStore) -> None:
    async with opened(make, "exchanges") as store:
        for number in range(5):
            await store.remember(exchange(number))
        assert await store.exchanges(ALICE, context_id="c", limit=9) == tuple(
            exchange(number) for number in (4, 3, 2, 1, 0)
        )
        assert await store.exchanges(ALICE, context_id="c", limit=2) == (exchange(4), exchange(3))


async def exchanges_of_one_moment_keep_their_order(make: MakeStore) -> None:
    async with opened(make, "same-moment") as store:
        first, second = Exchange(ALICE, "c", 1, b"[1]"), Exchange(ALICE, "c", 1, b"[2]")
        await store.remember(first)
        await store.remember(second)
        assert await store.exchanges(ALICE, limit=9) == (second, first)


async def exchanges_are_in_the_order_of_their_time(make: MakeStore) -> None:
    """Also when a clock was set back."""
    async with opened(make, "set-back") as store:
        for number in (5, 2, 7, 3):
            await store.remember(exchange(number))
        await store.remember(exchange(4, context_id="other"))
        assert await store.exchanges(ALICE, context_id="c", limit=3) == (
            exchange(7), exchange(5), exchange(3),
        )  # fmt: skip
        latest = await store.exchanges(ALICE, limit=3)
        assert latest == (exchange(7), exchange(5), exchange(4, context_id="other"))


async def exchanges_belong_to_a_scope_and_a_context(make: MakeStore) -> None:
    async with opened(make, "scopes") as store:
        mine, elsewhere = exchange(1), exchange(2, context_id="other")
        theirs = exchange(3, scope=BOB)
        for each in (mine, elsewhere, theirs):
            await store.remember(each)
        assert await store.exchanges(ALICE, context_id="c", limit=9) == (mine,)
        assert await store.exchanges(ALICE, limit=9) == (elsewhere, mine)
        assert await store.exchanges(BOB, context_id="c", limit=9) == (theirs,)
        assert await store.exchanges(BOB, context_id="other", limit=9) == ()


async def old_exchanges_are_forgotten_in_steps(make: MakeStore) -> None:
    async with opened(make, "forget") as store:
        for number in (4, 1, 6):
            await store.remember(exchange(number))
        await store.remember(exchange(2, context_id="other"))
        await store.remember(exchange(3, scope=BOB))
        await must_put(store, create("a", state=COMPLETED, status_ms=1))
        assert await store.forget_exchanges("agent", before_ms=1, limit=9) == 0
        assert await store.count_exchanges("agent", before_ms=1) == 0
        assert await store.count_exchanges("agent", before_ms=5) == 4
        assert await store.forget_exchanges("agent", before_ms=5, limit=2) == 2
        assert await store.count_exchanges("agent", before_ms=5) == 2
        # The oldest went, whoever's they were.
        assert await store.exchanges(ALICE, limit=9) == (exchange(6), exchange(4))
        assert await store.exchanges(ALICE, context_id="other", limit=9) == ()
        assert await store.exchanges(BOB, limit=9) == (exchange(3, scope=BOB),)
        assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 2
        assert await store.forget_exchanges("agent", before_ms=5, limit=9) == 0
        assert await store.exchanges(ALICE, context_id="c", limit=9) == (exchange(6),)
        assert await store.exchanges(BOB, limit=9) == ()
        # Tasks are another matter, and conversations go on.
        assert await store.owner("a") == ALICE
        await store.remember(exchange(7))
        await store.remember(exchange(8, context_id="other"))
        assert await store.exchanges(ALICE, limit=9) == (
            exchange(8, context_id="other"), exchange(7), exchange(6),
        )  # fmt: skip


async def of_one_moment_what_came_first_is_forgotten_first(make: MakeStore) -> None:
    async with opened(make, "forget-moment") as store:
        first, second = Exchange(ALICE, "c", 1, b"[1]"), Exchange(ALICE, "d", 1, b"[2]")
        await store.remember(first)
        await store.remember(second)
        assert await store.forget_exchanges("agent", before_ms=2, limit=1) == 1
        assert await store.exchanges(ALICE, limit=9) == (second,)


async def exchanges_of_agents_are_forgotten_apart(make: MakeStore) -> None:
    other = Scope("other", "", "alice")
    async with opened(make, "forget-apart") as store:
        mine, theirs = exchange(1), exchange(1, scope=other)
        await store.remember(mine)
        await store.remember(theirs)
        # Who looks after the store finds them, though there is no task.
        assert set(await store.scopes()) == {ALICE, other}
        assert await store.forget_exchanges("unknown", before_ms=9, limit=9) == 0
        assert await store.count_exchanges("unknown", before_ms=9) == 0
        assert await store.count_exchanges("agent", before_ms=9) == 1
        assert await store.forget_exchanges("agent", before_ms=9, limit=9) == 1
        assert await store.scopes() == (other,)
        assert await store.exchanges(other, limit=9) == (theirs,)


async def two_who_forget_count_an_exchange_once(make: MakeStore) -> None:
    async with opened(make, "forget-twice") as store:
        for number in range(8):
            await store.remember(exchange(number))
        steps = await asyncio.gather(
            *[store.forget_exchanges("agent", before_ms=7, limit=9) for _ in range(2)]
        )
        assert sum(steps) == 7
        assert await store.exchanges(ALICE, limit=9) == (exchange(7),)


async def an_exchange_is_no_task(make: MakeStore) -> None:
    async with opened(make, "no-task") as store:
        await store.remember(exchange(1))
        await store.heartbeat("n", now_ms=0, ttl_ms=10)
        assert await store.claim("n", now_ms=1000, limit=9) == ()


async def a_task_has_an_owner(make: MakeStore) -> None:
    async with opened(make, "owner") as store:
        await must_put(store, create("a"), create("b", scope=BOB))
        assert await store.owner("a") == ALICE
        assert await store.owner("b") == BOB
        assert await store.owner("c") is None


async def exchanges_survive_a_restart(make: MakeStore) -> None:
    """Durable stores only."""
    async with opened(make, "kept") as store:
        await store.remember(exchange(1))
        await must_put(store, create("a"))
    async with opened(make, "kept") as store:
        assert await store.exchanges(ALICE, limit=9) == (exchange(1),)
        assert await store.owner("a") == ALICE
        await store.remember(exchange(2))
        assert await store.exchanges(ALICE, limit=9) == (exchange(2), exchange(1))


async def what_was_forgotten_stays_so_after_a_restart(make: MakeStore) -> None:
    """Durable stores only."""
    kept = (exchange(5), exchange(4, context_id="mixed"))
    async with opened(make, "forgotten") as store:
        await store.remember(exchange(1, context_id="old"))
        await store.remember(exchange(2, context_id="mixed"))
    async with opened(make, "forgotten") as store:
        await store.remember(exchange(3, context_id="mixed"))
        await store.remember(kept[1])
        assert await store.forget_exchanges("agent", before_ms=4, limit=9) == 3
        await store.remember(kept[0])
        assert await store.exchanges(ALICE, limit=9) == kept
    async with opened(make, "forgotten") as store:
        assert await store.exchanges(ALICE, limit=9) == kept
        assert await store.forget_exchanges("agent", before_ms=9, limit=9) == 2
    async with opened(make, "forgotten") as store:
        assert await store.exchanges(ALICE, limit=9) == ()
        assert await store.scopes() == ()


CHECKS = (
    exchanges_come_back_latest_first,
    exchanges_of_one_moment_keep_their_order,
    exchanges_are_in_the_order_of_their_time,
    exchanges_belong_to_a_scope_and_a_context,
    old_exchanges_are_forgotten_in_steps,
    of_one_moment_what_came_first_is_forgotten_first,
    exchanges_of_agents_are_forgotten_apart,
    two_who_forget_count_an_exchange_once,
    an_exchange_is_no_task,
    a_task_has_an_owner,
)
DURABLE_CHECKS = (exchanges_survive_a_restart, what_was_forgotten_stays_so_after_a_restart)
