"""`Link`: the connection to an OpenClaw that all runs share, opened when it is needed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from trunkline.backends.openclaw.connection import Connection, Introduction
from trunkline.backends.openclaw.failures import Trouble, misconfigured, unreachable
from trunkline.backends.openclaw.frames import AgentEvent, Happening
from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.remote.errors import RemoteError
from trunkline.remote.websocket import WebSocket

_log = logging.getLogger("trunkline.backends.openclaw")

_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 5.0
_GREETING_S: Final = 20.0


class Listener(Protocol):
    """A run that wants to know what OpenClaw says about it."""

    session_key: str
    openclaw_id: str

    def hear(self, told: Happening) -> None: ...

    def may_adopt(self, told: AgentEvent) -> bool:
        """Whether a run that nobody knows is this one, under another id."""
        ...

    def lose(self) -> None:
        """The connection is gone."""
        ...


class Link:
    def __init__(
        self,
        *,
        dial: Callable[[], Awaitable[WebSocket]],
        introduce: Introduction,
        clock: Clock,
        tasks: BackgroundTasks,
    ) -> None:
        self._dial = dial
        self._introduce = introduce
        self._clock = clock
        self._tasks = tasks
        self._current: Connection | None = None
        self._attempt: asyncio.Future[Connection] | None = None
        self._failures = 0
        self._next_at = 0.0
        self._is_closed = False
        self._listeners: dict[str, Listener] = {}

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_connected(self) -> bool:
        return self._current is not None

    def listen(self, listener: Listener) -> None:
        self._listeners[listener.openclaw_id] = listener

    async def forget(self, listener: Listener) -> None:
        """Remove the listener; a session without one is unsubscribed."""
        if self._listeners.get(listener.openclaw_id) is listener:
            del self._listeners[listener.openclaw_id]
        key = listener.session_key
        if self._current is not None and not any(
            other.session_key == key for other in self._listeners.values()
        ):
            try:
                await self._current.unsubscribe(key)
            except Trouble:
                return

    async def connection(self) -> Connection:
        """The connection, made anew if there is none. Raises Trouble.

        Attempts that follow a failure wait for their time; whoever comes meanwhile waits too.
        """
        if self._is_closed:
            raise unreachable("this gateway stops")
        if self._current is not None:
            return self._current
        if self._attempt is None:
            self._attempt = asyncio.get_running_loop().create_future()
            # Nobody may be left to look when it fails.
            self._attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._tasks.spawn(self._connect(self._attempt), name="connect to OpenClaw")
        return await asyncio.shield(self._attempt)

    async def close(self) -> None:
        self._is_closed = True
        current, self._current = self._current, None
        for listener in list(self._listeners.values()):
            listener.lose()
        if current is not None:
            await current.close()

    async def _connect(self, attempt: "asyncio.Future[Connection]") -> None:
        try:
            wait_s = self._next_at - self._clock.monotonic()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
            connection = await self._open()
        except Trouble as trouble:
            self._postpone(trouble.retry_after_s)
            self._settle(attempt, trouble)
        except BaseException as error:
            self._settle(attempt, unreachable(f"the attempt ended with {type(error).__name__}"))
            raise
        else:
            self._failures = 0
            self._current = connection
            self._settle(attempt, connection)
            hello = connection.hello
            _log.info(
                "connected to OpenClaw",
                extra={"version": hello.version, "protocol": hello.protocol},
            )
            await self._read(connection)

    def _settle(self, attempt: "asyncio.Future[Connection]", outcome: Connection | Trouble) -> None:
        self._attempt = None
        if attempt.done():
            return
        if isinstance(outcome, Trouble):
            attempt.set_exception(outcome)
        else:
            attempt.set_result(outcome)

    def _postpone(self, retry_after_s: float | None) -> None:
        wait_s = min(_FIRST_WAIT_S * 2**self._failures, _LONGEST_WAIT_S)
        self._failures = min(self._failures + 1, 16)
        self._next_at = self._clock.monotonic() + max(wait_s, retry_after_s or 0.0)

    async def _open(self) -> Connection:
        try:
            socket = await self._dial()
        except RemoteError as error:
            if error.reason in ("TLS_FAILED", "NOT_WEBSOCKET", "REDIRECT", "BAD_URL", "NOT_HTTP"):
                raise misconfigured(error.message, "Correct the backend's `url`.") from None
            raise unreachable(error.message) from None
        connection = Connection(socket, listen=self._tell)
        try:
            async with asyncio.timeout(_GREETING_S):
                await connection.greet(self._introduce, self._clock)
        except TimeoutError:
            await connection.close()
            raise unreachable("it does not greet") from None
        except BaseException:
            await connection.close()
            raise
        if self._is_closed:
            await connection.close()
            raise unreachable("this gateway stops")
        return connection

    async def _read(self, connection: Connection) -> None:
        try:
            await connection.read()
        except Trouble as trouble:
            if not self._is_closed:
                _log.warning("the connection to OpenClaw is lost: %s", trouble.found)
        finally:
            if self._current is connection:
                self._current = None
            self._postpone(None)
            await connection.close()
            for listener in list(self._listeners.values()):
                listener.lose()

    def _tell(self, told: Happening) -> None:
        listener = self._listeners.get(told.run_id)
        if listener is not None:
            listener.hear(told)
        elif isinstance(told, AgentEvent):
            for listener in list(self._listeners.values()):
                if listener.session_key == told.session_key and listener.may_adopt(told):
                    del self._listeners[listener.openclaw_id]
                    listener.openclaw_id = told.run_id
                    self._listeners[told.run_id] = listener
                    listener.hear(told)
                    return
