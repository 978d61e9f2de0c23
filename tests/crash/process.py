"""`Process`: stores that die together, at a chosen write."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal, TypeVar

from trunkline.ports.store import Append, Result, Settled, Store
from trunkline.testing import CrashingStore, FakeClock, settle

T = TypeVar("T")

_READS: Final = frozenset(
    [
        "record",
        "records",
        "task_records",
        "count_due",
        "get",
        "owner",
        "entries",
        "value_sizes",
        "value_slices",
        "list",
        "list_all",
        "unfinished",
        "scopes",
        "count_ended",
    ]
)


class Process:
    """`crash_on` counts the writes of all its stores; 0 for a process that lives on."""

    def __init__(
        self, *, crash_on: int = 0, when: Literal["before", "after"] = "before", clock: FakeClock
    ) -> None:
        self.crash_on = crash_on
        self.when = when
        self.clock = clock
        self.writes = 0
        self.is_dead = False
        self.crashed = asyncio.Event()
        self.under_way = 0
        self.answered = asyncio.Event()

    def store(self, inner: Store) -> Store:
        return _ProcessStore(inner, self)

    async def let_pass(self, seconds: float) -> None:
        """Let time pass, but not while a store is at work: a slow disk would end a lease."""
        await settle()
        while self.under_way and not self.is_dead:
            self.answered.clear()
            await self.answered.wait()
            # An answer may lead to the next call.
            await settle()
        await self.clock.advance(seconds)


class _ProcessStore(CrashingStore):
    def __init__(self, inner: Store, process: Process) -> None:
        super().__init__(inner, crash_on=0, when=process.when)
        self._process = process
        self.crashed = process.crashed

    @property
    def _is_dead(self) -> bool:
        return "_process" in vars(self) and self._process.is_dead

    @_is_dead.setter
    def _is_dead(self, is_dead: bool) -> None:
        if is_dead:
            self._process.is_dead = True

    def _is_fatal(self) -> bool:
        self._process.writes += 1
        return self._process.writes == self._process.crash_on

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        self._begun()
        try:
            name: str = call.func.__name__ if isinstance(call, partial) else ""
            if name not in _READS:
                return await super()._pass_on(call)
            if not self._is_dead:
                result: T = await call()
                if not self._is_dead:
                    return result
            never: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            return await never
        finally:
            self._ended()

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        counted: list[tuple[Append, Settled]] = []
        for append, settled in appends:
            self._begun()
            counted.append((append, partial(self._settled, settled)))
        super().submit(counted)

    def _settled(self, settled: Settled, result: Result) -> None:
        self._ended()
        settled(result)

    def _begun(self) -> None:
        self._process.under_way += 1

    def _ended(self) -> None:
        self._process.under_way -= 1
        if not self._process.under_way:
            self._process.answered.set()
