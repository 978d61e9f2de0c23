"""`HostCalls`: requests that the relay makes itself to the agents of hosts."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import AgentLost, InvalidAgentResponse, Unavailable
from trunkline.ports.clock import Clock
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece
from trunkline.protocol.relay.frames import Header
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.relay.carrier import OpenStream, StreamCancelled
from trunkline.relay.relay import Relay, Way

# A host has this long to answer.
ANSWER_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
_RETRY_AFTER_S: Final = 5


class HostCall(Struct, frozen=True, kw_only=True):
    agent: str
    caller: Caller
    method: str
    # Path and query, percent-encoded.
    target: str
    headers: Sequence[Header] = ()
    body: bytes = b""
    # The task that the request delivers from the mailbox.
    task: str = ""


class HostAnswer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Sequence[Header]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each == name), "")


class HostCalls:
    def __init__(self, relay: Relay, *, clock: Clock, tasks: BackgroundTasks) -> None:
        self._relay = relay
        self._clock = clock
        self._tasks = tasks

    async def way(self, agent: str, *, within_s: float = 0.0) -> Way:
        """Raises Unavailable."""
        way = await self._relay.connected(agent, within_s=within_s)
        if way is None:
            raise not_attached()
        return way

    def open(self, way: Way, call: HostCall) -> OpenStream:
        """The stream of a request; whoever opens it closes it. Raises CannotOpen."""
        room = way.session.first_room
        number = way.session.open(
            agent=call.agent,
            caller=call.caller,
            method=call.method,
            target=call.target,
            headers=call.headers,
            task=call.task,
            data=call.body[:room],
            is_last=len(call.body) <= room,
        )
        stream = way.carrier.stream(number)
        way.carrier.flush()
        if len(call.body) > room:
            rest = _upload(stream, call.body[room:])
            self._tasks.spawn(rest, name="send a request of the relay to a host")
        return stream

    async def answer(
        self, call: HostCall, *, within_s: float = ANSWER_S, max_bytes: int = MAX_ANSWER_BYTES
    ) -> HostAnswer:
        """The whole response. Raises Unavailable, AgentLost or InvalidAgentResponse."""
        try:
            stream = self.open(await self.way(call.agent), call)
        except CannotOpen as error:
            raise Unavailable(
                f"The agent takes no request now: {error}", retry_after_s=_RETRY_AFTER_S
            ) from None
        alarm = self._tasks.start(self.give_up(stream, within_s), name="alarm of a request")
        try:
            return await _answer(stream, max_bytes)
        finally:
            alarm.cancel()
            stream.close()

    async def give_up(self, stream: OpenStream, within_s: float) -> None:
        """Cancel the stream when its time is over."""
        await self._clock.sleep(within_s)
        stream.cancel("timeout", "the host did not answer in time")


async def _answer(stream: OpenStream, max_bytes: int) -> HostAnswer:
    head: Answered | None = None
    pieces: list[bytes] = []
    size = 0
    while True:
        match await stream.next():
            case Accepted():
                continue
            case Answered() as answered:
                head = answered
            case Piece(_, data, is_last):
                pieces.append(data)
                size += len(data)
                if size > max_bytes:
                    raise InvalidAgentResponse(
                        f"The agent answers with more than {max_bytes} bytes"
                    )
                if is_last:
                    break
            case Cancelled() as end:
                raise why_ended(end)
    assert head is not None
    return HostAnswer(status=head.status, headers=head.headers, body=b"".join(pieces))


async def _upload(stream: OpenStream, rest: bytes) -> None:
    try:
        await stream.write(rest, is_last=True)
    except StreamCancelled:
        """Whoever reads the answer learns of it."""


def not_attached() -> Unavailable:
    return Unavailable(
        "No agent of this name is attached to the relay now; check the name, or try again later",
        retry_after_s=_RETRY_AFTER_S,
    )


def why_ended(end: Cancelled) -> Unavailable | AgentLost:
    why = end.text or end.reason
    if end.is_unsent:
        return Unavailable(
            f"The agent did not get the request ({why}); try again", retry_after_s=_RETRY_AFTER_S
        )
    return AgentLost(
        f"The agent did not end its answer ({why}); it may have acted on the request already"
    )
