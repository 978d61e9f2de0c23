"""`CrashingStore`: a store whose process dies at a chosen call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

from trunkline.ports.store import Append, Result, Settled, Store
from trunkline.testing.passing_store import PassingStore

T = TypeVar("T")


class CrashingStore(PassingStore):
    """Passes calls on to `inner` until call number `crash_on`, counted from 1.

    That one takes no effect (`when="before"`), or takes effect and is not answered
    (`when="after"`). From then on nothing is answered: reads never return, appends never
    settle, as in a process that is gone. Wait for `crashed`, drop whatever used the
    store, and start anew on `inner`, which stays open.

    With `crash_on=0` nothing crashes; `calls` then says how many cases there are.
    """

    def __init__(
        self, inner: Store, *, crash_on: int, when: Literal["before", "after"] = "before"
    ) -> None:
        super().__init__(inner)
        self._crash_on = crash_on
        self._when = when
        self._is_dead = False
        self.calls = 0
        self.crashed = asyncio.Event()

    @property
    def problem(self) -> str | None:
        return self.inner.problem

    @property
    def keeps_large_values(self) -> bool:
        return self.inner.keeps_large_values

    async def open(self) -> None:
        await self.inner.open()

    async def check(self) -> None:
        if not self._is_dead:
            await self.inner.check()

    async def close(self) -> None:
        if not self._is_dead:
            await self.inner.close()

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self._is_dead:
            return
        if not self._is_fatal():
            self.inner.submit([(append, partial(self._tell, told)) for append, told in appends])
            return
        self._is_dead = True
        if self._when == "before" or not appends:
            self.crashed.set()
            return
        # Appends settle in order, so the last one shows that all are stored.
        self.inner.submit([(append, lambda _: None) for append, _ in appends[:-1]])
        self.inner.submit([(appends[-1][0], lambda _: self.crashed.set())])

    def _tell(self, settled: Settled, result: Result) -> None:
        if not self._is_dead:
            settled(result)

    def _is_fatal(self) -> bool:
        self.calls += 1
        return self.calls == self._crash_on

    async def _pass_on(self, call: Callable[[], Awaitable[T]]) -> T:
        if not self._is_dead:
            if not self._is_fatal():
                result = await call()
                # The process may have died while the call was under way.
                if not self._is_dead:
                    return result
            else:
                self._is_dead = True
                if self._when == "after":
                    await call()
                self.crashed.set()
        never: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await never
