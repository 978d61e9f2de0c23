"""What every benchmarked agent does, driven by the text of the message."""

import asyncio
from collections.abc import AsyncIterator

# Deltas per second of `paced N`.
PACE = 500

# One gate per server process: a run has at most one fan-out at a time.
_gate = asyncio.Event()


def delta(index: int) -> str:
    """The text of one streamed chunk: numbered, so that a reader can tell order and gaps."""
    return f"d{index:04d};"


async def play(text: str) -> AsyncIterator[str]:
    """Yield the chunks of the answer.

    `stream N` gives N deltas, `fanout N` the same after somebody sent `go`, `ticks N` one every
    second, `paced N` 500 in a second, `spaced N` each in a pass of the loop of its own; all else is
    an echo.
    """
    verb, _, count = text.partition(" ")
    if verb == "fanout":
        await _gate.wait()
        _gate.clear()
    if verb in ("stream", "fanout", "ticks", "paced", "spaced"):
        began = asyncio.get_running_loop().time()
        for index in range(int(count)):
            yield delta(index)
            if verb == "ticks":
                await asyncio.sleep(1)
            elif verb == "paced":
                due = began + (index + 1) / PACE
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            elif verb == "spaced":
                await asyncio.sleep(0)
        return
    if verb == "go":
        _gate.set()
    yield text
