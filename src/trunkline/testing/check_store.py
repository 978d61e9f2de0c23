"""The suite that every store passes.

As one call, with whatever test runner you use:

    await check_store(lambda name: MyStore(folder / name), is_durable=True)

or one test per promise with pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda name: MyStore(tmp_path / name))

A check raises AssertionError when the store breaks the contract of `ports.store`.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from trunkline.testing.stores import (
    appends,
    exchanges,
    large_values,
    leases,
    lists,
    notes,
    reads,
    retention,
)
from trunkline.testing.stores.kit import MakeStore

Check: TypeAlias = Callable[[MakeStore], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    *appends.CHECKS,
    *reads.CHECKS,
    *lists.CHECKS,
    *leases.CHECKS,
    *retention.CHECKS,
    *exchanges.CHECKS,
    *notes.CHECKS,
    *large_values.CHECKS,
)
# For stores whose data outlives the object.
DURABLE_CHECKS: tuple[Check, ...] = (
    *retention.DURABLE_CHECKS,
    *exchanges.DURABLE_CHECKS,
    *notes.DURABLE_CHECKS,
    *large_values.DURABLE_CHECKS,
)


async def check_store(make: MakeStore, *, is_durable: bool) -> None:
    """`make` builds a store that is not open yet.

    Durable stores that it makes with the same name share their data; a name that was
    not used before gives an empty store.
    """
    for check in CHECKS + (DURABLE_CHECKS if is_durable else ()):
        await check(make)
