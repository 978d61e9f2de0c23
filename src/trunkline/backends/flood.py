"""An end for agents elsewhere that say more than they may."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from trunkline.backends.output_channel import flooded, size_of
from trunkline.model.outputs import Failed, Output


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
                yield Failed(flooded(max_bytes))
                return
            yield output
