"""Pages over several stores: in order, without gaps and without doubles."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from trunkline.console.tasks.task_pages import merged_page
from trunkline.model.errors import InvalidParams
from trunkline.model.values import TaskState
from trunkline.ports.store import OperatorQuery, Store
from trunkline.stores.memory import MemoryStore
from trunkline.testing.stores.kit import create, follow, must_put


class Place(Struct, eq=False):
    name: str
    store: Store


async def filled(*stores: Sequence[int]) -> list[Any]:
    """A store for each list, with a task for each time."""
    places: list[Any] = []
    for number, times in enumerate(stores):
        store = MemoryStore()
        await store.open()
        for order, status_ms in enumerate(times):
            await must_put(store, create(f"{number}.{order}", status_ms=status_ms))
        places.append(Place(f"store-{number}", store))
    return places


async def read(places: list[Any], limit: int, **filters: Any) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    token = ""
    while True:
        page = await merged_page(places, OperatorQuery(limit=limit, **filters), token, ["f"])
        assert page.total == sum([len(await _ids(place)) for place in places])
        assert len(page.tasks) <= limit
        found += [(task.status_ms, task.task_id) for _, task in page.tasks]
        token = page.token
        if not token:
            return found
        assert len(page.tasks) == limit, "a page that others follow is full"


async def _ids(place: Any) -> list[str]:
    page = await place.store.list_all(OperatorQuery(limit=1000))
    return [task.task_id for task in page.tasks]


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=12), min_size=1, max_size=4), st.integers(1, 7)
)
def test_every_task_is_on_one_page_and_the_latest_comes_first(
    times: list[list[int]], limit: int
) -> None:
    async def check() -> None:
        found = await read(await filled(*times), limit)
        assert [status_ms for status_ms, _ in found] == sorted(
            [each for store in times for each in store], reverse=True
        )
        assert len({task_id for _, task_id in found}) == len(found) == sum(map(len, times))

    asyncio.run(check())


async def test_tasks_that_change_meanwhile_move_and_the_others_stay() -> None:
    places = await filled(range(0, 40, 2), range(1, 41, 2))
    seen: list[str] = []
    token, moved = "", 0
    while True:
        page = await merged_page(places, OperatorQuery(limit=7), token, [])
        seen += [task.task_id for _, task in page.tasks]
        token = page.token
        if not token:
            break
        # One that was on a page already, one that was not, and a new one.
        moved += 1
        await must_put(places[0].store, follow(f"0.{19 - moved}", 1, status_ms=1000 + moved))
        await must_put(places[1].store, follow(f"1.{moved}", 1, status_ms=1000 + moved))
        await must_put(places[1].store, create(f"new.{moved}", status_ms=2000))
    changed = {f"0.{19 - n}" for n in range(1, moved + 1)} | {f"1.{n}" for n in range(1, moved + 1)}
    unchanged = [f"{store}.{n}" for store in (0, 1) for n in range(20)]
    for task_id in unchanged:
        expected = (0, 1) if task_id in changed else (1,)
        assert seen.count(task_id) in expected, task_id


async def test_a_store_that_comes_later_is_read_from_its_beginning() -> None:
    one, two = await filled([5, 4, 3], [9, 8])
    first = await merged_page([one], OperatorQuery(limit=2), "", [])
    second = await merged_page([one, two], OperatorQuery(limit=5), first.token, [])
    assert [task.status_ms for _, task in second.tasks] == [9, 8, 3]
    # And one that is gone is no fault.
    rest = await merged_page([two], OperatorQuery(limit=5), first.token, [])
    assert [task.status_ms for _, task in rest.tasks] == [9, 8]


@pytest.mark.parametrize(
    "token",
    ["x", "AAAA", "WzEse31d", "e30", "WzEseyJzIjpbOTk5OTk5OTk5OTk5OTk5OTk5OTk5LDFdfV0", "-" * 2000],
)
async def test_a_token_that_was_not_given_out_is_refused(token: str) -> None:
    places = await filled([1, 2, 3])
    with pytest.raises(InvalidParams, match="pageToken"):
        await merged_page(places, OperatorQuery(limit=1), token, ["f"])


async def test_a_token_is_good_for_its_filters_alone() -> None:
    places = await filled([1, 2, 3])
    page = await merged_page(places, OperatorQuery(limit=1), "", ["agent", "a"])
    with pytest.raises(InvalidParams, match="other filters"):
        await merged_page(places, OperatorQuery(limit=1), page.token, ["agent", "b"])


async def test_no_store_has_no_tasks() -> None:
    page = await merged_page([], OperatorQuery(states=(TaskState.FAILED,)), "", [])
    assert (page.tasks, page.total, page.token) == ([], 0, "")
