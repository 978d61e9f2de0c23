"""How submitters are told what became of their appends."""

import asyncio
from collections.abc import Iterable

from trunkline.model.errors import StoreError
from trunkline.ports.store import Settled


def settle(
    loop: asyncio.AbstractEventLoop, results: Iterable[tuple[Settled, StoreError | None]]
) -> None:
    """Tell each submitter its result. One that raises is reported to the loop's exception
    handler; it neither silences those behind it nor stops the store."""
    for settled, result in results:
        try:
            settled(result)
        except Exception as error:  # noqa: BLE001 - goes to the loop's exception handler
            loop.call_exception_handler(
                {"message": "a submitter failed when it was told of its commit", "exception": error}
            )
