"""`Presences`: whether the backends of agents are there, asked at most every few seconds."""

import asyncio
import logging
from weakref import WeakKeyDictionary

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.ports.backend import HasPresence
from trunkline.ports.clock import Clock
from trunkline.runtime.agents import PublishedAgent

_log = logging.getLogger("trunkline.presence")

# For how long an answer counts, so that a crowd of readers asks a backend once.
FRESH_S = 5.0
# An older answer is still told, while the backend is asked again.
USABLE_S = 30.0
# So many backends are asked at once, however many agents a list shows.
MOST_AT_ONCE = 16
# A backend that has not answered after this time counts as not there.
ASK_S = 2.0


class _Known(Struct):
    is_online: bool = False
    at: float = float("-inf")
    asking: asyncio.Task[None] | None = None


class Presences:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: WeakKeyDictionary[PublishedAgent, _Known] = WeakKeyDictionary()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks = BackgroundTasks("presence")

    async def is_online(self, agent: PublishedAgent) -> bool:
        backend = agent.backend
        if not isinstance(backend, HasPresence):
            # It runs inside the gateway.
            return True
        known = self._known.setdefault(agent, _Known())
        age_s = self._clock.monotonic() - known.at
        if age_s < FRESH_S:
            return known.is_online
        if known.asking is None:
            known.asking = self._tasks.start(
                self._ask(backend, known), name=f"presence of {agent.handle}"
            )
        if age_s >= USABLE_S:
            await asyncio.wait({known.asking}, timeout=ASK_S)
        return known.is_online

    async def _ask(self, backend: HasPresence, known: _Known) -> None:
        try:
            async with self._room, asyncio.timeout(ASK_S):
                known.is_online = await backend.presence()
        except TimeoutError:
            known.is_online = False
        except Exception:  # noqa: BLE001 - logged; a card is served in any case
            _log.exception("a backend cannot say whether it is there")
            known.is_online = False
        finally:
            known.at = self._clock.monotonic()
            known.asking = None

    async def close(self) -> None:
        await self._tasks.close()
