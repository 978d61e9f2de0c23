"""A store whose process dies at a chosen call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

from trunkline.model.errors import StoreError
from trunkline.model.events import Entry
from trunkline.ports.store import (
    Append,
    Exchange,
    IdempotencyRecord,
    KeptNote,
    Scope,
    Settled,
    Store,
    StoredTask,
    TaskPage,
    TaskQuery,
)

T = TypeVar("T")


class CrashingStore:
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
        self._inner = inner
        self._crash_on = crash_on
        self._when = when
        self._is_dead = False
        self.calls = 0
        self.crashed = asyncio.Event()

    @property
    def problem(self) -> str | None:
        return self._inner.problem

    @property
    def keeps_large_values(self) -> bool:
        return self._inner.keeps_large_values

    async def open(self) -> None:
        await self._inner.open()

    async def check(self) -> None:
        if not self._is_dead:
            await self._inner.check()

    async def close(self) -> None:
        if not self._is_dead:
            await self._inner.close()

    def submit(self, appends: Sequence[tuple[Append, Settled]]) -> None:
        if self._is_dead:
            return
        if not self._is_fatal():
            self._inner.submit([(append, partial(self._tell, told)) for append, told in appends])
            return
        self._is_dead = True
        if self._when == "before" or not appends:
            self.crashed.set()
            return
        # Appends settle in order, so that the last one stands for all.
        self._inner.submit([(append, self._stay_silent) for append, _ in appends[:-1]])
        self._inner.submit([(appends[-1][0], lambda _: self.crashed.set())])

    def _tell(self, settled: Settled, result: StoreError | None) -> None:
        if not self._is_dead:
            settled(result)

    def _stay_silent(self, _: StoreError | None) -> None:
        pass

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

    async def get(self, scope: Scope, task_id: str) -> StoredTask | None:
        return await self._pass_on(lambda: self._inner.get(scope, task_id))

    async def owner(self, task_id: str) -> Scope | None:
        return await self._pass_on(lambda: self._inner.owner(task_id))

    async def remember(self, exchange: Exchange) -> None:
        await self._pass_on(lambda: self._inner.remember(exchange))

    async def exchanges(
        self, scope: Scope, *, context_id: str = "", limit: int
    ) -> tuple[Exchange, ...]:
        return await self._pass_on(
            lambda: self._inner.exchanges(scope, context_id=context_id, limit=limit)
        )

    async def forget_exchanges(self, agent: str, *, before_ms: int, limit: int) -> int:
        return await self._pass_on(
            lambda: self._inner.forget_exchanges(agent, before_ms=before_ms, limit=limit)
        )

    async def count_exchanges(self, agent: str, *, before_ms: int) -> int:
        return await self._pass_on(lambda: self._inner.count_exchanges(agent, before_ms=before_ms))

    async def keep(self, note: KeptNote) -> None:
        await self._pass_on(lambda: self._inner.keep(note))

    async def kept(self, scope: Scope, context_id: str, name: str) -> str | None:
        return await self._pass_on(lambda: self._inner.kept(scope, context_id, name))

    async def forget_notes(self, agent: str, *, before_ms: int, limit: int) -> int:
        return await self._pass_on(
            lambda: self._inner.forget_notes(agent, before_ms=before_ms, limit=limit)
        )

    async def entries(self, task_id: str, *, after: int, limit: int) -> tuple[Entry, ...]:
        return await self._pass_on(lambda: self._inner.entries(task_id, after=after, limit=limit))

    async def value_sizes(self, scope: Scope, ids: Sequence[str]) -> dict[str, int]:
        return await self._pass_on(lambda: self._inner.value_sizes(scope, ids))

    async def value_slices(self, value_id: str, *, first: int, limit: int) -> tuple[bytes, ...]:
        return await self._pass_on(
            lambda: self._inner.value_slices(value_id, first=first, limit=limit)
        )

    async def list(self, query: TaskQuery) -> TaskPage:
        return await self._pass_on(lambda: self._inner.list(query))

    async def recall(self, scope: Scope, key: str) -> IdempotencyRecord | None:
        return await self._pass_on(lambda: self._inner.recall(scope, key))

    async def heartbeat(self, node: str, *, now_ms: int, ttl_ms: int) -> None:
        await self._pass_on(lambda: self._inner.heartbeat(node, now_ms=now_ms, ttl_ms=ttl_ms))

    async def claim(
        self, node: str, *, now_ms: int, limit: int, task_id: str | None = None
    ) -> tuple[StoredTask, ...]:
        return await self._pass_on(
            lambda: self._inner.claim(node, now_ms=now_ms, limit=limit, task_id=task_id)
        )

    async def scopes(self) -> tuple[Scope, ...]:
        return await self._pass_on(self._inner.scopes)

    async def count_ended(self, agent: str, *, before_ms: int | None = None) -> int:
        return await self._pass_on(lambda: self._inner.count_ended(agent, before_ms=before_ms))

    async def prune(self, agent: str, *, limit: int, before_ms: int | None = None) -> int:
        return await self._pass_on(
            lambda: self._inner.prune(agent, limit=limit, before_ms=before_ms)
        )

    async def prune_journal(self, task_id: str, *, up_to: int) -> None:
        await self._pass_on(lambda: self._inner.prune_journal(task_id, up_to=up_to))
