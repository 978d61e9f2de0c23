"""`Silence`: whether a database that is late with an answer answers at all."""

import asyncio
from collections.abc import Awaitable, Callable

from trunkline.background import BackgroundTasks
from trunkline.stores.postgres.connection import ConnectionLost, DatabaseError

# How long an answer to nothing but "are you there" may take. With the time after which a statement
# is late, callers hear within two seconds that the database is silent.
PROBE_S = 0.8
_PAUSE_S = 0.2


class Silence:
    """A statement may take long, so one that is late says little. A database that does not even
    answer the simplest one within a second hangs, or the network to it does."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[object]],
        began: Callable[[], None],
    ) -> None:
        """`ask` gets any answer from the database; `began` is called when there is none."""
        self._ask = ask
        self._began = began
        self._is_asking = False
        self._tasks = BackgroundTasks("silence")
        # Whether the database does not answer.
        self.is_silent = False

    def suspect(self) -> None:
        """Find out, because a statement is late."""
        if not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._find_out(), name="is the database there")

    async def close(self) -> None:
        await self._tasks.close()

    async def _find_out(self) -> None:
        """Return once the database answers."""
        try:
            while not await self._answers():
                if not self.is_silent:
                    self.is_silent = True
                    self._began()
                await asyncio.sleep(_PAUSE_S)  # noqa: TID251 - the network has no other clock
        finally:
            self._is_asking = self.is_silent = False

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_S):
                await self._ask()
        except (TimeoutError, ConnectionLost):
            return False
        except DatabaseError:
            # It refused, which is an answer.
            return True
        return True
