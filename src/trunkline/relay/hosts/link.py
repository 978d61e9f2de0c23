"""`Link`: one relay of a host, which it dials again and again."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.websocket import ABNORMAL
from trunkline.protocol.relay.close_codes import FATAL, NORMAL, REPLACED, RESTART, Close
from trunkline.protocol.relay.frames import SUBPROTOCOL
from trunkline.protocol.relay.reconnects import PATIENCE_S, STABLE_S, Health, Reconnects
from trunkline.relay.hosts.attachment import Attachment
from trunkline.relay.hosts.dialing import Dial, DialFailed
from trunkline.relay.hosts.host_token import HostToken

_log: Final = logging.getLogger("trunkline.relay.hosts.host")

# How often a host whose token was refused looks whether it has another one.
TOKEN_CHECK_S: Final = 5.0


class LinkStatus(Struct, frozen=True, kw_only=True):
    """What people want to know of one relay."""

    relay: str
    # Whether the agents can be called there.
    is_attached: bool
    is_refused: bool
    # Why they cannot.
    trouble: str
    code: int
    # Until the next attempt; None while there is one, or none will come.
    next_try_s: float | None
    reconnects: int
    failures: int


class Link:
    def __init__(
        self,
        url: str,
        *,
        dial: Dial,
        token: HostToken,
        attach: Callable[["Link", bool], Attachment],
        takes_v1: bool,
        has_other: Callable[["Link"], bool],
        on_change: Callable[["Link"], None],
        clock: Clock,
        chance: Callable[[], float],
        tasks: BackgroundTasks,
    ) -> None:
        """`attach` makes a session, of protocol v1 if so asked. `has_other` tells whether another
        link of the host is attached."""
        self.url: Final = url
        self.token: Final = token
        # The session that can be resumed, or the newest.
        self.attachment: Attachment | None = None
        self.is_refused = False
        # Another host has the agents now.
        self.is_replaced = False
        self._dial = dial
        self._attach = attach
        self._takes_v1 = takes_v1
        self._is_v1 = False
        self._has_other = has_other
        self._on_change = on_change
        self._clock = clock
        self._chance = chance
        self._tasks = tasks
        self._loop: asyncio.Task[None] | None = None
        self._reconnects = Reconnects()
        self._leaves = asyncio.Event()
        # Since it was last attached: the time, and whether an attempt has failed.
        self._attached_at: float | None = None
        self._lost_at = clock.monotonic()
        self._has_failed = False
        self._close = Close(0, "")
        self._next_try_at: float | None = None
        self._welcomes = 0
        self._failures = 0

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def is_attached(self) -> bool:
        attachment = self.attachment
        return attachment is not None and not attachment.is_leaving and bool(attachment.leases)

    @property
    def is_running(self) -> bool:
        return self._loop is not None and not self._loop.done()

    @property
    def health(self) -> Health:
        now = self._clock.monotonic()
        if self._attached_at is not None:
            is_stable = now - self._attached_at >= STABLE_S
            return Health.STABLE if is_stable else Health.ATTACHED
        if self._has_failed or self.is_refused or now - self._lost_at >= PATIENCE_S:
            return Health.FAILING
        return Health.TRYING

    @property
    def status(self) -> LinkStatus:
        wait_s = None
        if self._next_try_at is not None:
            wait_s = max(0.0, self._next_try_at - self._clock.monotonic())
        return LinkStatus(
            relay=self.name,
            is_attached=self.is_attached,
            is_refused=self.is_refused,
            trouble=self._close.reason,
            code=self._close.code,
            next_try_s=wait_s,
            reconnects=max(0, self._welcomes - 1),
            failures=self._failures,
        )

    def start(self, *, is_first: bool) -> None:
        """Keep the relay from now on. All hosts of a relay that fails start the next one at the
        same moment; only the first relay of a host is dialed at once."""
        if self._loop is None or self._loop.done():
            self._lost_at = self._clock.monotonic()
            self._has_failed = self.is_refused = False
            wait_s = 0.0 if is_first else self._reconnects.failed(self._lost_at, self._chance())
            self._loop = self._tasks.start(self._keep(wait_s), name="keep a relay")

    def stop(self) -> None:
        """Dial no more. A session that is there goes on until it is drained."""
        if self._loop is not None:
            self._loop.cancel()
            self._loop = None
        self._next_try_at, self._close = None, Close(0, "")
        self._leave()

    def welcomed(self) -> None:
        """The relay has taken a connection."""
        self._welcomes += 1
        self._reconnects.connected(self._clock.monotonic())

    def happened(self) -> None:
        """After everything that a session says."""
        if self.attachment is not None and self.attachment.is_leaving:
            self._close = Close(RESTART, "the relay is about to stop")
            self._has_failed = True
            self._leaves.set()
        self.note()

    def note(self) -> None:
        """Compare what the session says with what was known."""
        is_attached = self.is_attached
        if is_attached == (self._attached_at is not None):
            return
        now = self._clock.monotonic()
        if is_attached:
            self._attached_at, self._has_failed = now, False
            self._close = Close(0, "")
        else:
            self._attached_at, self._lost_at = None, now
        self._on_change(self)

    async def _keep(self, wait_s: float) -> None:
        await self._clock.sleep(wait_s)
        while True:
            close, retry_after_s = await self._connect()
            self._close = close
            if close.code in FATAL and not await self._may_go_on(close):
                await self._refused(close)
                continue
            now = self._clock.monotonic()
            wait_s = self._reconnects.failed(now, self._chance(), retry_after_s=retry_after_s)
            self._next_try_at = now + wait_s
            _log.warning(
                "there is no connection to the relay",
                extra={
                    "relay": self.name,
                    "reason": close.reason,
                    "code": close.code,
                    "next_try_s": round(wait_s, 1),
                },
            )
            self._on_change(self)
            await self._clock.sleep(wait_s)
            self._next_try_at = None

    async def _connect(self) -> tuple[Close, float]:
        """Dial, and use the connection until it ends or the relay stops. Returns why, and how long
        the relay wants no other attempt."""
        try:
            token = await self.token.next()
            socket = await self._dial(self.url, token)
        except DialFailed as failed:
            self._has_failed = True
            self._failures += 1
            return Close(failed.code, failed.message), failed.retry_after_s
        is_v1 = socket.subprotocol != SUBPROTOCOL
        if is_v1 and not self._takes_v1:
            await socket.close(NORMAL, "")
            return Close(ABNORMAL, f"what answers there does not speak {SUBPROTOCOL}"), 0.0
        attachment = self._attachment(is_v1=is_v1)
        self._leaves.clear()
        carrying = self._tasks.start(attachment.carry(socket, token), name="use a connection")
        leaving = self._tasks.start(self._left(), name="leave a relay")
        try:
            await asyncio.wait({carrying, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        self.note()
        if attachment.is_leaving:
            self._leave()
            return self._close, attachment.retry_after_s
        close = carrying.result()
        return (close if close.reason else Close(close.code, _why(close.code))), 0.0

    def _attachment(self, *, is_v1: bool) -> Attachment:
        """The one that can be resumed, or a new one."""
        if is_v1 != self._is_v1:
            self._leave()
        if self.attachment is None:
            self._is_v1 = is_v1
            self.attachment = self._attach(self, is_v1)
        return self.attachment

    async def _left(self) -> None:
        await self._leaves.wait()

    def _leave(self) -> None:
        """The session ends what it has begun, and the next connection begins another."""
        if self.attachment is not None:
            self.attachment.is_leaving = True
            if not self.attachment.is_connected:
                self.attachment.drain(0)
            self.attachment = None
        self.note()

    async def _may_go_on(self, close: Close) -> bool:
        """Whether another attempt is of use after a fatal code."""
        if close.code == REPLACED:
            # It was this host, by another relay that knows the same agents.
            return self._has_other(self)
        return await self.token.has_changed()

    async def _refused(self, close: Close) -> None:
        """Wait until the host has another token."""
        self.is_refused, self.is_replaced = True, close.code == REPLACED
        _log.error(
            "the relay refuses this host, which does not try again",
            extra={"relay": self.name, "code": close.code, "reason": close.reason},
        )
        self._on_change(self)
        while self.is_replaced or not await self.token.has_changed():
            await self._clock.sleep(TOKEN_CHECK_S)
        self.is_refused = False
        self._on_change(self)


def _why(code: int) -> str:
    """The reason of a close that has none."""
    if code == ABNORMAL:
        return "the connection was lost"
    return f"the relay has closed the connection with the code {code}"
