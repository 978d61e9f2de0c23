"""`Waiting`: callers of this node that wait for the end of a call, and get its answer in place of
an entry of their session."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from trunkline.background import BackgroundTasks
from trunkline.engine.agent_calls import CallRefused
from trunkline.ports.clock import Clock
from trunkline.ports.store import Store
from trunkline.routing.call_records import CallRecord, RoutedCall, call_key, decode_record

# How much longer than its timeout a caller waits for an answer: by then another node has ended the
# call, or this one looks for itself.
_LATE_S: Final = 0.25
# How long a caller goes on looking for the end of a call that is overdue.
_OVERDUE_S: Final = 10.0


class Waiting:
    def __init__(self, *, open_main: Callable[[], Awaitable[Store]], clock: Clock) -> None:
        self._open_main = open_main
        self._clock = clock
        self._woken: dict[str, list[asyncio.Event]] = {}
        self._tasks = BackgroundTasks("callers that wait")

    @contextmanager
    def for_call(self, call_id: str) -> Iterator[asyncio.Event]:
        """The event is set when the call may have ended. Entered before the call is made, so that
        no end is missed."""
        woken = asyncio.Event()
        self._woken.setdefault(call_id, []).append(woken)
        try:
            yield woken
        finally:
            left = self._woken[call_id]
            left.remove(woken)
            if not left:
                del self._woken[call_id]

    def wake(self, call_id: str) -> bool:
        """Have the callers of the call look for its end; an empty id means all of them. Returns
        whether one waits at this node."""
        found = [woken for id, each in self._woken.items() if call_id in ("", id) for woken in each]
        for woken in found:
            woken.set()
        return bool(found)

    async def recorded(self, call_id: str) -> CallRecord | None:
        """The call as the store has it."""
        main = await self._open_main()
        stored = await main.record(call_key(call_id))
        return None if stored is None else decode_record(stored.body)

    async def answer(self, call: RoutedCall, woken: asyncio.Event) -> dict[str, Any]:
        """Wait for the end of a call that is under way. Raises CallRefused."""
        due_s = (call.begun_ms + call.timeout_ms - self._clock.now_ms()) / 1000
        until = self._clock.monotonic() + max(0.0, due_s) + _LATE_S
        while True:
            left_s = until - self._clock.monotonic()
            await self._pause(woken, left_s if left_s > 0 else _LATE_S)
            woken.clear()
            record = await self.recorded(call.id)
            if record is not None and record.state != "pending":
                return answer_of(record)
            if self._clock.monotonic() > until + _OVERDUE_S:
                raise CallRefused("call_failed", "the gateway could not end the call in time")

    async def close(self) -> None:
        await self._tasks.close()

    async def _pause(self, woken: asyncio.Event, seconds: float) -> None:
        """Until the event is set, or the time is over."""
        sleeping = self._tasks.start(self._clock.sleep(seconds), name="a caller waits")
        waiting = self._tasks.start(woken.wait(), name="a caller waits for an answer")
        try:
            await asyncio.wait({sleeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waiting.cancel()


def answer_of(record: CallRecord) -> dict[str, Any]:
    """What a call that has ended was answered with. Raises CallRefused."""
    if record.state == "discarded":
        raise CallRefused(
            "session_ended", "the session was ended meanwhile, so the answer was discarded"
        )
    answer: dict[str, Any] = msgspec.json.decode(record.payload)
    return answer
