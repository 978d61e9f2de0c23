"""`ASYNCIO`, `UVLOOP`: event loops for tests, which refuse calls from other threads."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

import uvloop

_Args = TypeVarTuple("_Args")


class _OneThread(asyncio.AbstractEventLoop):
    """Of asyncio's debug mode only the check of the thread, which finds faults that no assertion
    sees. The rest of it, such as the stack of every call, doubles the time of many tests;
    `pytest --asyncio-debug` adds it where a test needs an explanation."""

    def call_soon(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        self._refuse_other_threads()
        return super().call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Args], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._refuse_other_threads()
        return super().call_later(delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Args], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._refuse_other_threads()
        return super().call_at(when, callback, *args, context=context)

    def _refuse_other_threads(self) -> None:
        if asyncio._get_running_loop() is not self and self.is_running():
            raise RuntimeError("called from a thread that does not run this event loop")


LoopFactories = dict[str, Callable[[], asyncio.AbstractEventLoop]]

ASYNCIO: LoopFactories = {"asyncio": type("Asyncio", (_OneThread, asyncio.SelectorEventLoop), {})}
UVLOOP: LoopFactories = {"uvloop": type("Uvloop", (_OneThread, uvloop.Loop), {})}
