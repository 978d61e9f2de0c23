"""The outputs of a run on their way to whoever reads them."""

import asyncio
from collections import deque
from typing import Final

from trunkline.model.outputs import Failed, Output, Text

# How far OpenClaw may run ahead of the journal, in outputs that cannot be joined.
_MAX_AHEAD: Final = 10_000
_TOO_MUCH: Final = "The agent said more than can be taken in."


class Telling:
    """`is_over` once nobody listens any more; `is_cut` while the connection is lost."""

    def __init__(self) -> None:
        self._ready: deque[Output] = deque()
        self._wake = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_over = False
        self._is_cut = True

    def is_over(self) -> bool:
        return self._is_over

    def is_cut(self) -> bool:
        return self._is_cut

    def end(self) -> None:
        self._is_over = True
        self._gone.set()
        self._wake.set()

    def cut(self) -> None:
        self._is_cut = True
        self._gone.set()
        self._wake.set()

    def connect(self) -> None:
        self._is_cut = False
        if not self._is_over:
            self._gone.clear()

    def tell(self, *outputs: Output) -> None:
        for output in outputs:
            last = self._ready[-1] if self._ready else None
            if isinstance(output, Text) and isinstance(last, Text):
                self._ready[-1] = Text(last.delta + output.delta)
            else:
                self._ready.append(output)
        if len(self._ready) > _MAX_AHEAD:
            self._ready.clear()
            self._ready.append(Failed(_TOO_MUCH))
        self._wake.set()

    def take(self) -> Output | None:
        return self._ready.popleft() if self._ready and not self.is_over() else None

    async def changed(self) -> None:
        """Something was told, the connection was lost, or it is over."""
        await self._wake.wait()
        self._wake.clear()

    async def until_cut(self) -> None:
        """The connection is lost, or it is over."""
        await self._gone.wait()
