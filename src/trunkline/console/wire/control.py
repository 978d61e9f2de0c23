"""`WireControl`: which agents are recorded, and which get faults, until when."""

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap, Fault, Injection, Recorder, Tap


class Recording(Struct, frozen=True):
    """`until_ms` is None for a recording that goes on until it is switched off."""

    until_ms: int | None


class WireControl:
    """Agents are known by their handles, so a recording goes on when an agent is published anew."""

    def __init__(self, recorder: Recorder, *, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._timers = BackgroundTasks("wire log")
        self._recordings: dict[str, Recording] = {}
        self._faults: dict[str, Injection] = {}
        # What ends them, by what it ends and the handle.
        self._ends: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._clients: WeakValueDictionary[str, ClientTap] = WeakValueDictionary()
        # Gives the endpoints of a published agent their tap.
        self.on_change: Callable[[str, Tap | None], None] = lambda *_: None

    @property
    def recordings(self) -> Mapping[str, Recording]:
        return self._recordings

    def tap_of(self, handle: str) -> Tap | None:
        """What the endpoints of the agent have now."""
        is_on, injection = handle in self._recordings, self._faults.get(handle)
        if not is_on and injection is None:
            return None
        return Tap(
            agent=handle,
            clock=self._clock,
            recorder=self._recorder if is_on else None,
            injection=injection,
        )

    def client_of(self, handle: str) -> ClientTap:
        """What the connections of the agent's backend look at."""
        tap = self._clients.get(handle)
        if tap is None:
            is_on = handle in self._recordings
            tap = ClientTap(agent=handle, recorder=self._recorder if is_on else None)
            self._clients[handle] = tap
        return tap

    def record(self, handle: str, *, minutes: float | None = None) -> Recording:
        until_ms = None
        if minutes is not None:
            until_ms = self._clock.now_ms() + round(minutes * 60_000)
        recording = self._recordings[handle] = Recording(until_ms)
        self._apply(handle)
        self._end_later("recording", handle, None if minutes is None else minutes * 60, self.stop)
        return recording

    def stop(self, handle: str) -> None:
        """Record the agent no more; exchanges under way are recorded to their end."""
        self._forget_end("recording", handle)
        if self._recordings.pop(handle, None) is not None:
            self._apply(handle)

    def fault_of(self, handle: str) -> Injection | None:
        return self._faults.get(handle)

    def inject(self, handle: str, fault: Fault, *, seconds: float) -> Injection:
        """Give the agent a fault in place of the one that it has."""
        self._lift(handle)
        until_ms = self._clock.now_ms() + round(seconds * 1000)
        injection = self._faults[handle] = Injection(until_ms, fault)
        self._apply(handle)
        self._end_later("fault", handle, seconds, self.heal)
        return injection

    def heal(self, handle: str) -> None:
        """End the fault of the agent, also for streams under way."""
        self._forget_end("fault", handle)
        if self._lift(handle):
            self._apply(handle)

    def _lift(self, handle: str) -> bool:
        injection = self._faults.pop(handle, None)
        if injection is not None:
            injection.fault = None
        return injection is not None

    def _apply(self, handle: str) -> None:
        client = self._clients.get(handle)
        if client is not None:
            client.recorder = self._recorder if handle in self._recordings else None
        self.on_change(handle, self.tap_of(handle))

    def _end_later(
        self, what: str, handle: str, seconds: float | None, end: Callable[[str], None]
    ) -> None:
        """End it after this time, whatever end it had before."""
        self._forget_end(what, handle)
        if seconds is None:
            return

        async def wait() -> None:
            await self._clock.sleep(seconds)
            del self._ends[what, handle]
            end(handle)

        self._ends[what, handle] = self._timers.start(wait(), name=f"end of a {what}")

    def _forget_end(self, what: str, handle: str) -> None:
        timer = self._ends.pop((what, handle), None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        await self._timers.close()
