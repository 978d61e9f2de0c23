"""`V1Connection`: calls of an agent that speaks protocol v1, over its socket."""

import asyncio
from typing import Final

from msgspec import UNSET

from trunkline.model.errors import (
    AgentLost,
    ContentTypeNotSupported,
    InvalidAgentResponse,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    PushNotificationNotSupported,
    TaskNotCancelable,
    TrunklineError,
    Unavailable,
    UnsupportedOperation,
)
from trunkline.ports.websocket import ABNORMAL, WebSocket, WebSocketClosed
from trunkline.protocol.relay.close_codes import Close
from trunkline.protocol.relay.v1 import frames as v1
from trunkline.protocol.relay.v1.relay_session import Answered, Pinged, V1RelaySession

# What older relays give an agent for an answer.
CALL_S: Final = 30.0
_RETRY_AFTER_S: Final = 5
_MAX_TEXT_CHARS: Final = 500
_PONG: Final = v1.encode(v1.Pong())
TASK_NOT_FOUND: Final = -32001
_ERRORS: Final[dict[int, type[TrunklineError]]] = {
    -32002: TaskNotCancelable,
    -32003: PushNotificationNotSupported,
    -32004: UnsupportedOperation,
    -32005: ContentTypeNotSupported,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
}


class AnsweredTooLate(AgentLost):
    """The time for the answer is over."""


class AgentRefused(Exception):
    """The agent has answered with an error."""

    def __init__(self, error: v1.ErrorPayload) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.message = error.message[:_MAX_TEXT_CHARS]

    def as_error(self) -> TrunklineError:
        kind = _ERRORS.get(self.code)
        if kind is None:
            return InvalidAgentResponse(f"The agent has failed: {self.message}")
        return kind(self.message or "The agent refuses the request")


class V1Connection:
    def __init__(self, socket: WebSocket, session: V1RelaySession) -> None:
        self._socket = socket
        self._session = session
        self._answers: dict[str, asyncio.Future[v1.ResponsePayload | None]] = {}
        self._is_open = True
        self._has_begun = asyncio.Event()

    def begin(self) -> None:
        """Send the requests from now on, because the agent expects `auth_ok` as the first
        frame."""
        self._has_begun.set()

    async def call(self, method: str, params: bytes, *, within_s: float = CALL_S) -> bytes:
        """The JSON of the result. Raises AgentRefused, AgentLost, Unavailable, TooManyRequests or
        PayloadTooLarge. The protocol cannot cancel, so the agent continues with what was given
        up."""
        if not self._is_open:
            raise _unsent()
        id, message = self._session.ask(method, params, timeout_s=within_s)
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                await self._has_begun.wait()
                try:
                    await self._socket.send(message)
                except WebSocketClosed:
                    raise _unsent() from None
                response = await answer
        except TimeoutError:
            raise AnsweredTooLate(
                f"The agent did not answer within {within_s:g} s; it may still do what it was asked"
            ) from None
        finally:
            self._session.forget(id)
            del self._answers[id]
        if response is None:
            raise AgentLost(
                "The connection to the agent was lost; it may have acted on the request already"
            )
        if response.error is not None:
            raise AgentRefused(response.error)
        return b"null" if response.result is UNSET else bytes(response.result)

    async def serve(self) -> Close:
        """Take the answers of the agent until the socket is closed. Returns how."""
        close = Close(ABNORMAL, "")
        try:
            while (closing := self._session.closing) is None:
                match self._session.receive(await self._socket.receive()):
                    case Answered(response):
                        self._take(response)
                    case Pinged():
                        # Here, so that an agent that reads nothing is read no further either.
                        await self._socket.send(_PONG)
                    case _:
                        continue
            close = closing
        except WebSocketClosed as closed:
            close = Close(closed.code, closed.reason)
        finally:
            self._fail()
        return close

    def _take(self, response: v1.ResponsePayload) -> None:
        answer = self._answers[response.id]
        if not answer.done():
            answer.set_result(response)

    def _fail(self) -> None:
        """No answer comes any more, so that those who wait for one learn it at once."""
        self._is_open = False
        self._has_begun.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)


def _unsent() -> Unavailable:
    return Unavailable(
        "The agent did not get the request, because its connection was lost; try again",
        retry_after_s=_RETRY_AFTER_S,
    )
