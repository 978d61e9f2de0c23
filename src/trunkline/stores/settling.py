"""How submitters are told what became of their appends."""

import asyncio
from collections.abc import Iterator

from trunkline.model.errors import StoreError
from trunkline.ports.store import Settled


def settle(
    loop: asyncio.AbstractEventLoop, results: Iterator[tuple[Settled, StoreError | None]]
) -> None:
    try:
        for settled, result in results:
            settled(result)
    except BaseException:
        # The error is the loop's to report; those behind it in the batch are
        # waiting for a commit that did happen.
        loop.call_soon(settle, loop, results)
        raise
