"""An end for agents elsewhere that say more than they may."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from trunkline.backends.programs import failures
from trunkline.model.outputs import Failed, Output, Text

_encode = msgspec.json.Encoder().encode


async def limited(
    outputs: AsyncGenerator[Output, None], *, max_bytes: int, stop: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Output, None]:
    """The outputs of a turn. When they are too much, the run is stopped and the turn fails."""
    said_bytes = 0
    async with aclosing(outputs):
        async for output in outputs:
            said_bytes += size_of(output)
            if said_bytes > max_bytes:
                await stop()
                yield Failed(failures.flooded(max_bytes))
                return
            yield output


def size_of(output: Output) -> int:
    """Bytes, as far as it matters; most outputs by far are pieces of text."""
    return len(output.delta.encode()) if isinstance(output, Text) else len(_encode(output))
