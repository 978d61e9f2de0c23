"""The suite that every store passes.

As one call, with whatever test runner you use:

    await check_store(lambda name: MyStore(folder / name), is_durable=True)

or one test per promise with pytest:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_store(check, tmp_path):
        await check(lambda name: MyStore(tmp_path / name))

A check raises AssertionError when the store breaks the contract of `ports.store`.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from inspect import iscoroutinefunction, signature
from types import ModuleType
from typing import TypeAlias

from trunkline.ports.store import Store
from trunkline.testing.stores import (
    appends,
    claims,
    conversations,
    lanes,
    large_values,
    lists,
    records,
    retention,
    slots,
)
from trunkline.testing.stores.kit import MakeStore, opened
from trunkline.testing.stores.lanes import Nodes

Check: TypeAlias = Callable[[MakeStore], Awaitable[None]]
# Checks of a store that several nodes share.
ClusterCheck: TypeAlias = Callable[[Nodes], Awaitable[None]]

_MODULES = (appends, lists, retention, conversations, large_values, records)


def _checks(module: ModuleType, parameter: str) -> Iterator[Callable[..., Awaitable[None]]]:
    """The public coroutines of the module that take this parameter first."""
    for name, check in vars(module).items():
        is_own = iscoroutinefunction(check) and check.__module__ == module.__name__
        if is_own and not name.startswith("_") and parameter in signature(check).parameters:
            yield check


def _in_a_new_store(check: Callable[[Store], Awaitable[None]], module: ModuleType) -> Check:
    @wraps(check)
    async def run(make: MakeStore) -> None:
        async with opened(make, check.__name__) as store:
            if store.keeps_large_values or module is not large_values:
                await check(store)

    return run


CHECKS: tuple[Check, ...] = tuple(
    _in_a_new_store(check, module) for module in _MODULES for check in _checks(module, "store")
)
# For stores whose data outlives the object: these open the same store more than once.
DURABLE_CHECKS: tuple[Check, ...] = tuple(
    check for module in _MODULES for check in _checks(module, "make")
)


CLUSTER_CHECKS: tuple[ClusterCheck, ...] = tuple(
    check for module in (lanes, slots, claims) for check in _checks(module, "nodes")
)


async def check_store(make: MakeStore, *, is_durable: bool) -> None:
    """`make` builds a store that is not open yet.

    Durable stores that it makes with the same name share their data; a name that was
    not used before gives an empty store.
    """
    for check in CHECKS + (DURABLE_CHECKS if is_durable else ()):
        await check(make)
