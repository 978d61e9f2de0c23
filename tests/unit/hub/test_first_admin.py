"""The token of the first operator: made once, whatever crashes and whoever starts as well."""

import asyncio

from tests.unit.hub.tokens_world import Node, open_nodes

from trunkline.background import BackgroundTasks
from trunkline.hub.first_admin import NAME, first_admin_token
from trunkline.hub.noted import not_noted
from trunkline.hub.passwords import Passwords
from trunkline.hub.tokens import Tokens
from trunkline.hub.users import Users
from trunkline.model.principal import OPERATOR
from trunkline.ports.store import Store
from trunkline.runtime.record_changes import RecordChanges
from trunkline.stores.memory import MemoryStore
from trunkline.testing import CrashingStore, FakeClock, settle


async def nobody(_: str) -> bool:
    return False


async def made(changes: RecordChanges, tokens: Tokens) -> str:
    users = Users(
        changes,
        passwords=Passwords(),
        sessions=tokens,
        rights=tokens.grants,
        clock=FakeClock(),
        is_taken=nobody,
    )
    return await first_admin_token(changes.store, tokens, users, not_noted)


async def made_at(node: Node) -> str:
    return await made(node.changes, node.tokens)


async def test_it_is_made_once_in_the_life_of_a_store() -> None:
    async with open_nodes(FakeClock()) as (node,):
        principal = await node.principal(await made_at(node))
        assert principal is not None
        assert OPERATOR in principal.roles
        assert await made_at(node) == ""


async def test_of_two_nodes_one_makes_it() -> None:
    async with open_nodes(FakeClock(), 2) as nodes:
        tokens = await asyncio.gather(*[made_at(node) for node in nodes])
        assert sorted(map(bool, tokens)) == [False, True]


async def start(store: Store) -> str:
    clock = FakeClock()
    changes = RecordChanges(clock, feature="hub")
    await changes.open(store, is_shared=False, tell=lambda: None)
    try:
        return await made(changes, Tokens(changes, clock=clock, style="trunkline"))
    finally:
        await changes.close()


async def exists(store: Store) -> bool:
    changes = RecordChanges(FakeClock(), feature="hub")
    await changes.open(store, is_shared=False, tell=lambda: None)
    tokens = Tokens(changes, clock=FakeClock(), style="trunkline")
    found = await tokens.list(principal=f"token:{NAME}")
    await changes.close()
    return bool(found)


async def test_a_start_that_dies_leaves_the_token_to_the_next_one() -> None:
    counting = CrashingStore(MemoryStore(), crash_on=0)
    await counting.open()
    assert await start(counting)
    assert counting.calls > 2
    for number in range(1, counting.calls + 1):
        inner = MemoryStore()
        await inner.open()
        store = CrashingStore(inner, crash_on=number)
        process = BackgroundTasks("process")
        starting = process.start(start(store), name="start")
        await store.crashed.wait()
        assert not starting.done()
        await process.close()
        await settle()
        # Unless it was made: then it could have been shown.
        assert await exists(inner) or await start(inner), f"call {number}"
