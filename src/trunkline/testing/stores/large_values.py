"""Checks of texts that are stored apart from the entries that refer to them.

Only for stores that keep large values.
"""

import msgspec

from trunkline.model.errors import StaleSeq
from trunkline.model.large_values import SLICE_BYTES, LargeValue
from trunkline.ports.store import Append, Result, Store
from trunkline.testing.stores.kit import (
    ALICE,
    BOB,
    COMPLETED,
    MakeStore,
    assert_results,
    create,
    follow,
    must_get,
    must_put,
    opened,
    put,
)

# With characters that JSON escapes or that take several bytes, so that slices begin anywhere.
_TEXT = 'A line with "quotes", ünïcode ✓ and 😀.\n' * 30_000


def _with(append: Append, *values: LargeValue) -> Append:
    return msgspec.structs.replace(append, values=values)


async def _read(store: Store, value_id: str) -> list[bytes]:
    slices: list[bytes] = []
    while found := await store.value_slices(value_id, first=len(slices), limit=2):
        slices += found
    return slices


async def large_value_comes_back_in_slices(store: Store) -> None:
    await must_put(store, _with(create("a"), LargeValue("one", _TEXT)))
    slices = await _read(store, "one")
    assert b'"%b"' % b"".join(slices) == msgspec.json.encode(_TEXT)
    assert {len(each) for each in slices[:-1]} == {SLICE_BYTES}
    assert 0 < len(slices[-1]) <= SLICE_BYTES
    size = sum(map(len, slices))
    assert await store.value_sizes(ALICE, ["one", "two"]) == {"one": size}


async def large_value_belongs_to_the_scope_of_its_task(store: Store) -> None:
    await must_put(store, _with(create("a"), LargeValue("one", _TEXT)))
    assert await store.value_sizes(BOB, ["one"]) == {}


async def large_append_holds_up_its_own_task_alone(store: Store) -> None:
    await must_put(store, create("large"))
    told: list[tuple[str, Result]] = []
    large = _with(follow("large", 1), LargeValue("one", _TEXT))
    store.submit(
        [
            (large, lambda error: told.append(("large", error))),
            (follow("large", 2), lambda error: told.append(("behind it", error))),
            (create("small"), lambda error: told.append(("small", error))),
        ]
    )
    store.submit([(follow("large", 3), lambda error: told.append(("last", error)))])
    await must_put(store, create("later"))
    assert told == [("small", None)], "the appends of others wait for a large one"
    await must_put(store, follow("large", 4))
    assert told == [("small", None), ("large", None), ("behind it", None), ("last", None)]
    assert (await must_get(store, "large")).last_seq == 5


async def refused_append_leaves_no_large_value(store: Store) -> None:
    await must_put(store, create("a"))
    stale = _with(follow("a", 7), LargeValue("one", _TEXT))
    assert_results(await put(store, stale), StaleSeq)
    assert await store.value_sizes(ALICE, ["one"]) == {}
    assert await _read(store, "one") == []
    # The same text in another append is another value.
    await must_put(store, _with(follow("a", 1), LargeValue("two", _TEXT)))
    assert list(await store.value_sizes(ALICE, ["one", "two"])) == ["two"]


async def large_values_go_with_their_task(store: Store) -> None:
    await must_put(store, _with(create("a", state=COMPLETED), LargeValue("one", _TEXT)))
    await must_put(store, _with(create("b"), LargeValue("two", _TEXT)))
    assert await store.prune("agent", limit=9) == 1
    assert list(await store.value_sizes(ALICE, ["one", "two"])) == ["two"]
    assert await _read(store, "one") == []
    assert await _read(store, "two")


async def large_value_survives(make: MakeStore) -> None:
    async with opened(make, "survives") as store:
        if store.keeps_large_values:
            store.submit([(_with(create("a"), LargeValue("one", _TEXT)), lambda _: None)])
    # It was closed while the value was being written.
    async with opened(make, "survives") as store:
        if store.keeps_large_values:
            slices = await _read(store, "one")
            assert b'"%b"' % b"".join(slices) == msgspec.json.encode(_TEXT)
