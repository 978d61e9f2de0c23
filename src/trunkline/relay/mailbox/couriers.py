"""`Couriers`: deliver the letters of the agents that are attached here.

The letters of a lane go one after the other, those of other lanes beside them. A letter leaves the
mailbox only when its host has said `accept`, which it does after its own commit.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError, TrunklineError
from trunkline.ports.clock import Clock
from trunkline.protocol.relay import deliveries
from trunkline.protocol.relay.addresses import target_of
from trunkline.protocol.relay.deliveries import Delivery
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece
from trunkline.protocol.relay.frames import Header
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.relay.carrier import OpenStream
from trunkline.relay.host_calls import HostCall, HostCalls
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.mailboxes import Mailboxes
from trunkline.relay.mailbox.records import Letter
from trunkline.relay.mailbox.waiting import Lane, Waiting
from trunkline.relay.relay import Relay

_log: Final = logging.getLogger("trunkline.relay")

# The letters of one agent that are on their way at a time, each of another lane.
MAX_SENT: Final = 8
# A host has this long to accept a letter.
ACCEPT_S: Final = 60.0
# A letter is dead after this many hosts, or connections, were lost while they had it: it may be the
# reason.
MAX_LOST: Final = 20
# The wait before the next attempt doubles between these.
_MIN_WAIT_S: Final = 1.0
_MAX_WAIT_S: Final = 60.0
# The host cannot take the letter now. After other statuses of 400 and above it never will.
_TEMPORARY: Final = frozenset({408, 425, 429, *range(500, 600)})
_MAX_REASON_BYTES: Final = 500
_HEADERS: Final = (("content-type", "application/json"),)


class Couriers:
    """A `LeaseListener`."""

    def __init__(
        self, relay: Relay, mailboxes: Mailboxes, calls: HostCalls, *, clock: Clock
    ) -> None:
        self._relay = relay
        self._mailboxes = mailboxes
        self._calls = calls
        self._clock = clock
        self._tasks = BackgroundTasks("couriers")
        self._couriers: dict[str, _Courier] = {}
        # The agents that are attached here.
        self._leased: set[str] = set()
        mailboxes.listen(self.wake)
        mailboxes.is_here = self.is_leased

    def leased(self, agent: str) -> None:
        self._leased.add(agent)
        if (courier := self._couriers.get(agent)) is not None:
            # Another host may take what the last one has refused.
            courier.not_before.clear()
        self.wake(agent)

    def released(self, agent: str) -> None:
        self._leased.discard(agent)
        if (courier := self._couriers.get(agent)) is not None:
            courier.woken.set()

    def is_leased(self, agent: str) -> bool:
        return agent in self._leased

    def wake(self, agent: str) -> None:
        """Deliver what waits for the agent, if it is attached here."""
        courier = self._couriers.get(agent)
        if courier is None:
            if agent not in self._leased or not self._mailboxes.waits(agent):
                return
            courier = self._couriers[agent] = _Courier(self, agent)
            self._tasks.spawn(self._run(courier), name="deliver letters")
        courier.woken.set()

    async def close(self) -> None:
        await self._tasks.close()

    async def _run(self, courier: "_Courier") -> None:
        try:
            while courier.lanes or (
                courier.agent in self._leased and self._mailboxes.waits(courier.agent)
            ):
                await courier.woken.wait()
                courier.woken.clear()
                if courier.agent in self._leased:
                    await self._begin(courier)
        finally:
            del self._couriers[courier.agent]

    async def _begin(self, courier: "_Courier") -> None:
        """Begin with as many lanes as there is room for."""
        try:
            mailbox = await self._mailboxes.of(courier.agent)
        except StoreError as error:
            _log.warning("a mailbox cannot be read", extra={"reason": error.message})
            self._wake_in(courier, _MIN_WAIT_S)
            return
        now = self._clock.monotonic()
        for waiting in [*mailbox.heads_of_lanes()]:
            if len(courier.lanes) >= MAX_SENT:
                return
            lane = waiting.lane
            if lane in courier.lanes or mailbox.is_held(waiting):
                continue
            if courier.not_before.get(lane, now) <= now:
                courier.lanes.add(lane)
                self._tasks.spawn(self._work_off(courier, mailbox, lane), name="deliver a lane")

    def _wake_in(self, courier: "_Courier", seconds: float) -> None:
        ends_at = self._clock.monotonic() + seconds

        async def wake() -> None:
            # A timer of the event loop may fire a few milliseconds early, and nothing else wakes
            # the courier for a lane whose time has not come.
            while (left_s := ends_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(left_s)
            courier.woken.set()

        self._tasks.spawn(wake(), name="wake a courier")

    async def _work_off(self, courier: "_Courier", mailbox: Mailbox, lane: Lane) -> None:
        """Deliver the letters of a lane, until there is none or one has to wait."""
        try:
            while courier.agent in self._leased:
                waiting = next(
                    (each for each in mailbox.heads_of_lanes() if each.lane == lane), None
                )
                if waiting is None:
                    courier.forget(lane)
                    return
                later = await self._tried(mailbox, waiting)
                if later is None:
                    courier.forget(lane)
                    continue
                wait_s = later.wait_s
                if later.is_refused:
                    failures = courier.failures[lane] = courier.failures.get(lane, 0) + 1
                    wait_s = max(wait_s, _backoff(failures))
                courier.not_before[lane] = self._clock.monotonic() + wait_s
                self._wake_in(courier, wait_s)
                return
        finally:
            courier.lanes.discard(lane)
            courier.woken.set()

    async def _tried(self, mailbox: Mailbox, waiting: Waiting) -> "_Later | None":
        try:
            return await self._deliver(mailbox, waiting)
        except TrunklineError as error:
            _log.warning(
                "a letter cannot be delivered now",
                extra={"agent": mailbox.agent, "task": waiting.task_id, "reason": error.message},
            )
            return _Later()
        except Exception:  # noqa: BLE001 - logged here; the other lanes go on
            _log.exception(
                "a letter cannot be delivered",
                extra={"agent": mailbox.agent, "task": waiting.task_id},
            )
            return _Later(_MAX_WAIT_S)

    async def _deliver(self, mailbox: Mailbox, waiting: Waiting) -> "_Later | None":
        """When to try again; None if the letter is gone."""
        attached = self._relay.find(mailbox.agent)
        if attached is None or not attached.session.is_connected:
            return _Later()
        letter = await mailbox.begin(waiting)
        if letter is None:
            return None if waiting.task_id not in mailbox.waiting else _Later()
        try:
            stream = self._calls.open(attached, _call(mailbox.agent, letter))
        except CannotOpen:
            await mailbox.postponed(waiting, letter)
            return _Later()
        alarm = self._tasks.start(self._calls.give_up(stream, ACCEPT_S), name="alarm of a letter")
        try:
            return await self._follow(mailbox, waiting, letter, stream)
        finally:
            alarm.cancel()
            stream.close()
            if waiting.is_sent:
                mailbox.lost(waiting)

    async def _follow(
        self, mailbox: Mailbox, waiting: Waiting, letter: Letter, stream: OpenStream
    ) -> "_Later | None":
        event = await stream.next()
        if isinstance(event, Cancelled):
            return await self._not_taken(mailbox, waiting, letter, event)
        if isinstance(event, Accepted) or (isinstance(event, Answered) and event.status < 400):
            await self._taken(mailbox, waiting)
            # The host ends the exchange itself.
            while not isinstance(event, Cancelled) and not (
                isinstance(event, Piece) and event.is_last
            ):
                event = await stream.next()
            return None
        assert isinstance(event, Answered)
        if event.status in _TEMPORARY:
            await mailbox.postponed(waiting, letter)
            return _Later(_retry_after(event.headers), is_refused=True)
        reason = f"its gateway refuses it with the status {event.status}"
        said = await _text(stream)
        await self._bury(mailbox, waiting, f"{reason}: {said}" if said else reason)
        return None

    async def _not_taken(
        self, mailbox: Mailbox, waiting: Waiting, letter: Letter, end: Cancelled
    ) -> "_Later | None":
        if end.is_unsent:
            await mailbox.postponed(waiting, letter)
            return _Later(is_refused=end.reason == "refused")
        if letter.lost >= MAX_LOST:
            await self._bury(
                mailbox, waiting, f"its gateway was lost {letter.lost} times while it took it"
            )
            return None
        mailbox.lost(waiting)
        return _Later()

    async def _taken(self, mailbox: Mailbox, waiting: Waiting) -> None:
        failures = 0
        while True:
            try:
                await mailbox.taken(waiting)
            except TrunklineError as error:
                # Nobody is told that the letter still waits, because the agent has it.
                failures += 1
                _log.warning("a letter cannot be removed", extra={"reason": error.message})
                await self._clock.sleep(_backoff(failures))
            else:
                self._mailboxes.delivered += 1
                return

    async def _bury(self, mailbox: Mailbox, waiting: Waiting, reason: str) -> None:
        try:
            await mailbox.bury(waiting, reason)
        finally:
            mailbox.lost(waiting)
        _log.warning(
            "a letter cannot be delivered",
            extra={"agent": mailbox.agent, "task": waiting.task_id, "reason": reason},
        )


class _Later(Struct, frozen=True):
    """A letter is tried again after this time."""

    wait_s: float = _MIN_WAIT_S
    # Whether the host has refused it.
    is_refused: bool = False


class _Courier:
    """What is on its way to one agent."""

    def __init__(self, couriers: Couriers, agent: str) -> None:
        self.agent: Final = agent
        self.woken = asyncio.Event()
        self.lanes: set[Lane] = set()
        # When a lane may be tried again, and how often in a row it has failed.
        self.not_before: dict[Lane, float] = {}
        self.failures: dict[Lane, int] = {}

    def forget(self, lane: Lane) -> None:
        self.not_before.pop(lane, None)
        self.failures.pop(lane, None)


def _backoff(failures: int) -> float:
    return float(min(_MIN_WAIT_S * 2 ** min(failures - 1, 10), _MAX_WAIT_S))


def _call(agent: str, letter: Letter) -> HostCall:
    delivery = Delivery(
        task_id=letter.task_id,
        context_id=letter.context_id,
        created_ms=letter.created_ms,
        kind=letter.kind,
        entry=letter.entry,
        tenant=letter.tenant,
        idempotency_key=letter.idempotency_key,
        operation=letter.operation,
        binding=letter.binding,
        digest=letter.digest,
    )
    return HostCall(
        agent=agent,
        caller=letter.caller,
        method="POST",
        target=target_of(agent),
        headers=_HEADERS,
        body=deliveries.encode(delivery),
        task=letter.task_id,
    )


def _retry_after(headers: Sequence[Header]) -> float:
    value = next((value for name, value in headers if name == "retry-after"), "")
    seconds = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
    return min(max(float(seconds), _MIN_WAIT_S), _MAX_WAIT_S)


async def _text(stream: OpenStream) -> str:
    """The beginning of the body of a refusal."""
    body = b""
    while len(body) < _MAX_REASON_BYTES:
        event = await stream.next()
        if not isinstance(event, Piece):
            break
        body += event.data
        if event.is_last:
            break
    return body[:_MAX_REASON_BYTES].decode("utf-8", "replace").strip()
