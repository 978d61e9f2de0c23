"""Answers that made no task, and whose a task is."""

from trunkline.ports.store import Exchange, Scope
from trunkline.testing.stores.kit import ALICE, BOB, MakeStore, create, must_put, opened


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


CHECKS = (
    exchanges_come_back_latest_first,
    exchanges_of_one_moment_keep_their_order,
    exchanges_belong_to_a_scope_and_a_context,
    an_exchange_is_no_task,
    a_task_has_an_owner,
)
DURABLE_CHECKS = (exchanges_survive_a_restart,)
