"""One open socket to OpenClaw: requests out, their answers and events in."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

from trunkline.backends.openclaw.failures import Trouble, misconfigured, unreachable
from trunkline.backends.openclaw.frames import (
    Event,
    Garbled,
    Happening,
    Response,
    decode,
    encode_request,
    fields_of,
    happening,
)
from trunkline.backends.openclaw.handshake import Hello, read_hello, refused
from trunkline.ports.clock import Clock
from trunkline.remote.errors import BadPeerAnswer, RemoteError
from trunkline.remote.websocket import SocketClosed, WebSocket

_log = logging.getLogger("trunkline.backends.openclaw")

Hears = Callable[[Response], None]
# Makes the parameters of `connect` out of the nonce and the time of the challenge.
Introduction = Callable[[str, int], dict[str, Any]]

CALL_S: Final = 30.0


class Connection:
    """`read` keeps it going; all other methods raise Trouble when it is lost."""

    def __init__(self, socket: WebSocket, *, listen: Callable[[Happening], None]) -> None:
        self._socket = socket
        self._listen = listen
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._hearers: dict[str, Hears] = {}
        self._subscribed: set[str] = set()
        self.hello = Hello()
        # The agents of OpenClaw, once they were listed.
        self.agent_ids: frozenset[str] | None = None
        self.is_lost = False
        self.is_stopping = False

    async def greet(self, introduce: Introduction, clock: Clock) -> None:
        """Get in. Raises Trouble."""
        challenge = await self._next_frame()
        while not (isinstance(challenge, Event) and challenge.event == "connect.challenge"):
            challenge = await self._next_frame()
        fields = fields_of(challenge)
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
        """Take in frames until the socket ends. Raises the Trouble that ended it."""
        try:
            while True:
                self._take(await self._next_frame())
        finally:
            self._give_up()

    async def call(
        self, method: str, params: dict[str, Any], *, within_s: float = CALL_S
    ) -> Response:
        """The answer, whatever it is. Raises Trouble when none comes."""
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

    async def send(self, frame: Callable[[str], str], hears: Hears) -> Callable[[], object]:
        """Send a request that gets several answers; `hears` gets each of them, until what is
        returned is called."""
        request_id = self._new_id()
        stop_hearing = partial(self._hearers.pop, request_id, None)
        self._hearers[request_id] = hears
        try:
            await self._send(frame(request_id))
        except BaseException:
            stop_hearing()
            raise
        return stop_hearing

    async def subscribe(self, session_key: str) -> None:
        """Events of the session come from now on."""
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
        elif isinstance(frame, Event):
            if frame.event == "shutdown":
                self.is_stopping = True
            elif (told := happening(frame)) is not None:
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
