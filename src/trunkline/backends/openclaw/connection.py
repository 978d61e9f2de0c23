"""`Link`: the connection to an OpenClaw that all runs share, opened when it is needed.

Its `Connection` is one open socket: requests out, their answers and events in.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.device import load_device, proof
from trunkline.backends.openclaw.failures import (
    Trouble,
    misconfigured,
    not_connected,
    unreachable,
)
from trunkline.backends.openclaw.frames import (
    AgentEvent,
    Event,
    Garbled,
    Happening,
    Response,
    decode,
    encode_request,
    happening,
)
from trunkline.backends.openclaw.handshake import Hello, connect_params, read_hello, refused
from trunkline.background import BackgroundTasks
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap
from trunkline.remote.errors import BadPeerAnswer, RemoteError
from trunkline.remote.websocket import SocketClosed, WebSocket, open_websocket

if TYPE_CHECKING:
    from trunkline.backends.openclaw.exchange import Exchange

_log = logging.getLogger("trunkline.backends.openclaw")

Hears = Callable[[Response], None]
# Makes the parameters of `connect` from the nonce and the time of the challenge.
Introduction = Callable[[str, int], dict[str, Any]]

_CALL_S: Final = 30.0
_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 5.0
_GREETING_S: Final = 20.0
# A frame of OpenClaw has up to 25 MB.
_MAX_FRAME_BYTES: Final = 26 * 1024 * 1024
_HEARTBEAT_S: Final = 30.0


class Connection:
    """One socket. `read` has to run meanwhile; all other methods raise Trouble when it is lost."""

    def __init__(self, socket: WebSocket, *, listen: Callable[[Happening], None]) -> None:
        self._socket = socket
        self._listen = listen
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._hearers: dict[str, Hears] = {}
        self._subscribed: set[str] = set()
        self.hello = Hello()
        # The agents of OpenClaw, after the first check listed them.
        self.agent_ids: frozenset[str] | None = None
        self.is_lost = False

    async def greet(self, introduce: Introduction, clock: Clock) -> None:
        """Answer the challenge of OpenClaw and log in. Raises Trouble."""
        challenge = await self._next_frame()
        while not (isinstance(challenge, Event) and challenge.event == "connect.challenge"):
            challenge = await self._next_frame()
        fields = challenge.fields
        nonce, ts = fields.get("nonce"), fields.get("ts")
        params = introduce(
            nonce if isinstance(nonce, str) else "", ts if isinstance(ts, int) else 0
        )
        await self._send(encode_request("connect", "connect", params))
        while True:
            frame = await self._next_frame()
            if isinstance(frame, Response) and frame.id == "connect":
                break
        if not frame.ok:
            raise refused(frame.fault)
        self.hello = read_hello(frame.fields, now_ms=clock.now_ms())

    async def read(self) -> None:
        """Read frames until the socket closes. Raises the Trouble that closed it."""
        try:
            while True:
                self._take(await self._next_frame())
        finally:
            self._give_up()

    async def call(
        self, method: str, params: dict[str, Any], *, within_s: float = _CALL_S
    ) -> Response:
        """The answer, also a refusal. Raises Trouble when none comes."""
        request_id = self._new_id()
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            async with asyncio.timeout(within_s):
                await self._send(encode_request(request_id, method, params))
                return await answer
        except TimeoutError:
            raise unreachable(f"no answer to {method} within {within_s:g} s") from None
        finally:
            self._waiting.pop(request_id, None)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The fields of the answer; none when it is a refusal."""
        response = await self.call(method, params)
        if not response.ok:
            _log.debug("OpenClaw refuses %s: %s", method, response.fault.code)
            return {}
        return response.fields

    async def send(self, method: str, params: dict[str, Any], hears: Hears) -> Callable[[], object]:
        """Send a request that gets several answers. `hears` gets each of them, until the caller
        calls the function that this returns."""
        request_id = self._new_id()
        stop_hearing = partial(self._hearers.pop, request_id, None)
        self._hearers[request_id] = hears
        try:
            await self._send(encode_request(request_id, method, params))
        except BaseException:
            stop_hearing()
            raise
        return stop_hearing

    async def subscribe(self, session_key: str) -> None:
        """From now on OpenClaw sends the events of the session."""
        if session_key in self._subscribed:
            return
        response = await self.call("sessions.messages.subscribe", {"key": session_key})
        if not response.ok:
            raise misconfigured(
                f"OpenClaw does not tell of the session: {response.fault.code}",
                "Look into OpenClaw's log.",
            )
        self._subscribed.add(session_key)

    async def unsubscribe(self, session_key: str) -> None:
        if session_key in self._subscribed and not self.is_lost:
            self._subscribed.discard(session_key)
            await self._send(
                encode_request(
                    self._new_id(), "sessions.messages.unsubscribe", {"key": session_key}
                )
            )

    async def close(self) -> None:
        await self._socket.close()

    def _take(self, frame: Response | Event | None) -> None:
        if isinstance(frame, Response):
            answer = self._waiting.pop(frame.id, None)
            if answer is not None and not answer.done():
                answer.set_result(frame)
            elif (hears := self._hearers.get(frame.id)) is not None:
                hears(frame)
        elif isinstance(frame, Event) and (told := happening(frame)) is not None:
            self._listen(told)

    async def _next_frame(self) -> Response | Event | None:
        try:
            return decode(await self._socket.receive())
        except SocketClosed as closed:
            raise _closed(closed) from None
        except (Garbled, BadPeerAnswer) as error:
            raise unreachable(f"it sends what is no frame: {error}") from None

    async def _send(self, text: str) -> None:
        if self.is_lost:
            raise unreachable("the connection was lost")
        try:
            await self._socket.send(text)
        except RemoteError as error:
            raise unreachable(error.message) from None

    def _give_up(self) -> None:
        self.is_lost = True
        waiting, self._waiting = self._waiting, {}
        self._hearers.clear()
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(unreachable("the connection was lost"))

    def _new_id(self) -> str:
        return f"t{next(self._numbers)}"


def _closed(closed: SocketClosed) -> Trouble:
    if closed.code == 1012:
        return unreachable("it restarts (close 1012)")
    return unreachable(f"it closed the connection ({closed.code})")


class Link:
    def __init__(
        self,
        address: Address,
        clock: Clock,
        tasks: BackgroundTasks,
        *,
        tap: ClientTap | None = None,
    ) -> None:
        """Raises ConfigError when the key of the device cannot be used."""
        self._tap = tap
        self.address = address
        self.clock = clock
        self.tasks = tasks
        file = address.device_file
        self._device = load_device(file) if file is not None else None
        self._current: Connection | None = None
        self._attempt: asyncio.Future[Connection] | None = None
        self._failures = 0
        self._next_at = 0.0
        self.is_closed = False
        self._listeners: dict[str, Exchange] = {}

    @property
    def is_connected(self) -> bool:
        return self._current is not None

    def listen(self, listener: "Exchange") -> None:
        self._listeners[listener.openclaw_id] = listener

    async def forget(self, listener: "Exchange") -> None:
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

        An attempt after a failure waits first; callers that come meanwhile share the attempt.
        """
        if self.is_closed:
            raise unreachable("this gateway stops")
        if self._current is not None:
            return self._current
        if self._attempt is None:
            self._attempt = asyncio.get_running_loop().create_future()
            # Reads the exception: all callers may have left before the attempt fails.
            self._attempt.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.tasks.spawn(self._connect(self._attempt), name="connect to OpenClaw")
        return await asyncio.shield(self._attempt)

    async def close(self) -> None:
        self.is_closed = True
        current, self._current = self._current, None
        for listener in list(self._listeners.values()):
            listener.lose()
        if current is not None:
            await current.close()

    async def _connect(self, attempt: "asyncio.Future[Connection]") -> None:
        try:
            wait_s = self._next_at - self.clock.monotonic()
            if wait_s > 0:
                await self.clock.sleep(wait_s)
            connection = self._current = await self._open()
        except Trouble as trouble:
            self._postpone(trouble.retry_after_s)
            attempt.set_exception(trouble)
            return
        except BaseException as error:
            attempt.set_exception(unreachable(f"the attempt ended with {type(error).__name__}"))
            raise
        finally:
            self._attempt = None
        self._failures = 0
        attempt.set_result(connection)
        hello = connection.hello
        _log.info(
            "connected to OpenClaw", extra={"version": hello.version, "protocol": hello.protocol}
        )
        await self._read(connection)

    def _postpone(self, retry_after_s: float | None) -> None:
        wait_s = min(_FIRST_WAIT_S * 2**self._failures, _LONGEST_WAIT_S)
        self._failures = min(self._failures + 1, 16)
        self._next_at = self.clock.monotonic() + max(wait_s, retry_after_s or 0.0)

    async def _open(self) -> Connection:
        try:
            socket = await open_websocket(
                self.address.url,
                connect_s=self.address.connect_s,
                max_frame_bytes=_MAX_FRAME_BYTES,
                heartbeat_s=_HEARTBEAT_S,
                public_only=self.address.public_only,
                tap=self._tap,
            )
        except RemoteError as error:
            raise not_connected(error) from None
        connection = Connection(socket, listen=self._tell)
        try:
            async with asyncio.timeout(_GREETING_S):
                await connection.greet(self._introduce, self.clock)
        except TimeoutError:
            await connection.close()
            raise unreachable("it does not greet") from None
        except BaseException:
            await connection.close()
            raise
        if self.is_closed:
            await connection.close()
            raise unreachable("this gateway stops")
        return connection

    def _introduce(self, nonce: str, ts: int) -> dict[str, Any]:
        token, shown = self.address.token, None
        if self._device is not None:
            shown = proof(self._device, token=token, platform=sys.platform, nonce=nonce, ts=ts)
        return connect_params(token=token, platform=sys.platform, device=shown)

    async def _read(self, connection: Connection) -> None:
        try:
            await connection.read()
        except Trouble as trouble:
            if not self.is_closed:
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
