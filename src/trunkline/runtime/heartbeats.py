"""`Heartbeats`: the readers of a runtime, and when each of them gets its next heartbeat."""

from trunkline.runtime.fanout import Subscription

# The maximum number of slots of an interval, and the length of the shortest slot.
MAX_SLOTS = 30
MIN_SLOT_S = 0.25


class Heartbeats:
    """A wheel of slots, one for each moment of the interval.

    Proxies close a silent connection, so every reader gets a heartbeat once per interval. A reader
    stays in the slot of the moment when it came, which spreads the work over the interval.
    `Wakeups` limits how many readers of one slot wake up at once.
    """

    def __init__(self, interval_s: float) -> None:
        count = max(1, min(MAX_SLOTS, int(interval_s / MIN_SLOT_S)))
        self.slot_s = interval_s / count
        self._slots: list[set[Subscription]] = [set() for _ in range(count)]
        self._slot_of: dict[Subscription, set[Subscription]] = {}
        self._now = 0

    def __len__(self) -> int:
        return len(self._slot_of)

    def add(self, reader: Subscription) -> None:
        # The slot that was served last comes round again after a whole interval.
        slot = self._slot_of[reader] = self._slots[self._now]
        slot.add(reader)

    def discard(self, reader: Subscription) -> None:
        slot = self._slot_of.pop(reader, None)
        if slot is not None:
            slot.discard(reader)

    def tick(self) -> None:
        """Serve the next slot. Called every `slot_s` seconds."""
        self._now = (self._now + 1) % len(self._slots)
        for reader in tuple(self._slots[self._now]):
            reader.beat()
