"""What readers of a store have beside its port."""

from trunkline.clock import SystemClock
from trunkline.ports.store import all_entries
from trunkline.stores.memory import MemoryStore
from trunkline.testing.stores.kit import create, entries, follow, must_put


async def test_all_entries_of_a_task_are_read_page_by_page() -> None:
    store = MemoryStore(clock=SystemClock())
    await store.open()
    await must_put(store, create("t1"))
    await must_put(store, follow("t1", 1, count=1_200))
    found = await all_entries(store, "t1")
    assert found[1:] == list(entries(1, 1_200))
    assert await all_entries(store, "unknown") == []
    await store.close()
