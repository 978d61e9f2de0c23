"""`PassingStore`: a store that passes its calls on to another, for stores that fail on purpose."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from trunkline.ports.store import Store

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def _passed_on(method: Method) -> Method:
    """The method that calls this method of the inner store."""

    @wraps(method)
    async def pass_on(self: "PassingStore", *args: Any, **options: Any) -> Any:
        return await self._pass_on(partial(getattr(self.inner, method.__name__), *args, **options))

    return cast("Method", pass_on)


class PassingStore:
    """Has every call of a store but `open`, `check`, `close` and `submit`."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        """Called for every method below."""
        return await call()

    change = _passed_on(Store.change)
    record = _passed_on(Store.record)
    records = _passed_on(Store.records)
    task_records = _passed_on(Store.task_records)
    claim_due = _passed_on(Store.claim_due)
    count_due = _passed_on(Store.count_due)
    delete_due = _passed_on(Store.delete_due)
    get = _passed_on(Store.get)
    owner = _passed_on(Store.owner)
    entries = _passed_on(Store.entries)
    value_sizes = _passed_on(Store.value_sizes)
    value_slices = _passed_on(Store.value_slices)
    list = _passed_on(Store.list)
    list_all = _passed_on(Store.list_all)
    unfinished = _passed_on(Store.unfinished)
    scopes = _passed_on(Store.scopes)
    count_ended = _passed_on(Store.count_ended)
    prune = _passed_on(Store.prune)
    prune_journal = _passed_on(Store.prune_journal)
