"""The runtimes of a gateway as one: there is one for each store that its agents use."""

import asyncio
from collections.abc import Iterator

from trunkline.runtime.runtime import Runtime


class Runtimes:
    def __init__(self, runtimes: tuple[Runtime, ...]) -> None:
        self._runtimes = runtimes

    def __iter__(self) -> Iterator[Runtime]:
        return iter(self._runtimes)

    def problems(self) -> list[str]:
        """Why the gateway should get no traffic now, for `/readyz`."""
        return [problem for runtime in self._runtimes for problem in runtime.problems()]

    async def open(self) -> None:
        """Open all of them, or none when one cannot be."""
        opened: list[Runtime] = []
        try:
            for runtime in self._runtimes:
                opened.append(runtime)
                await runtime.open()
        except BaseException:
            for runtime in reversed(opened):
                await runtime.close()
            raise

    async def drain(self, *, grace_s: float) -> None:
        async with asyncio.TaskGroup() as draining:
            for runtime in self._runtimes:
                draining.create_task(runtime.drain(grace_s=grace_s))

    async def close(self) -> None:
        for runtime in self._runtimes:
            await runtime.close()
