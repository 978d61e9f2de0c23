"""Ctrl+C and SIGTERM as a signal to the work, so that it can end in good order."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def call_off_on_interrupt() -> Iterator[asyncio.Event]:
    """The first interrupt sets the event; a second one ends the process as usual."""
    loop = asyncio.get_running_loop()
    called_off = asyncio.Event()
    caught: list[signal.Signals] = []

    def stop() -> None:
        called_off.set()
        restore()

    def restore() -> None:
        while caught:
            loop.remove_signal_handler(caught.pop())

    for each in _SIGNALS:
        try:
            loop.add_signal_handler(each, stop)
        except NotImplementedError:
            # Windows: Ctrl+C ends the process as it always does.
            continue
        caught.append(each)
    try:
        yield called_off
    finally:
        restore()
