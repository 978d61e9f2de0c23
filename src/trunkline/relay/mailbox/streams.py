"""`MailboxStreams`: the streams of tasks that wait for their agent.

Such a stream begins at the relay and stays open. Once the agent has the task, the relay subscribes
to it in place of the client, in the client's own words, and hands the agent's frames on as they
are: their ids continue those of the relay.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.model.calls import Operation
from trunkline.model.errors import StoreError, TrunklineError, Unavailable
from trunkline.ports.clock import Clock
from trunkline.protocol import sse
from trunkline.protocol.relay import headers
from trunkline.protocol.relay.addresses import target_of
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece
from trunkline.protocol.relay.frames import Header
from trunkline.protocol.relay.opening_session import CannotOpen
from trunkline.protocol.relay.whole_events import WholeEvents
from trunkline.relay.carrier import OpenStream
from trunkline.relay.host_calls import HostCall, HostCalls, why_ended
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.waiting import Waiting
from trunkline.relay.requests import RelayedRequest
from trunkline.runtime.fanout import Beat, Framed, Item, NoReply, Subscription
from trunkline.runtime.heartbeats import Heartbeats

# A stream waits this long for the agent to take its subscription.
_SUBSCRIBE_S: Final = 30.0
_RETRY_S: Final = 1.0
_MAX_ERROR_BYTES: Final = 64 * 1024
_METHODS: Final = {
    "SendStreamingMessage": "SubscribeToTask",
    "SubscribeToTask": "SubscribeToTask",
    "message/stream": "tasks/resubscribe",
    "tasks/resubscribe": "tasks/resubscribe",
}
_SEND: Final = "/message:stream"
# Those that are of the body, or of the request that the relay has answered.
_NOT_REPEATED: Final = frozenset(
    {"content-length", "content-encoding", "idempotency-key", "last-event-id"}
)


class FedSubscription(Subscription, kw_only=True, eq=False):
    """Its feeder waits while the reader has not read what it got."""

    _read: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> list[Item]:
        items = await super().next()
        self._read.set()
        return items

    async def feed(self, item: Item) -> None:
        self._read.clear()
        self.put(item)
        if not self.is_ended:
            await self._read.wait()


class MailboxStreams(Struct, frozen=True, kw_only=True, eq=False):
    calls: HostCalls
    clock: Clock
    tasks: BackgroundTasks
    heartbeats: Heartbeats

    def open(
        self,
        request: RelayedRequest,
        mailbox: Mailbox,
        waiting: Waiting,
        first: Sequence[Item],
    ) -> Subscription:
        """A stream that begins with these items."""
        reader = FedSubscription(closes_on=frozenset(), limit=1)
        self.heartbeats.add(reader)
        feeder = self.tasks.start(
            self._feed(reader, request, mailbox, waiting, first), name="stream of a mailbox"
        )

        def close(_: Subscription) -> None:
            self.heartbeats.discard(reader)
            feeder.cancel()

        reader.on_close(close)
        return reader

    async def _feed(
        self,
        reader: FedSubscription,
        request: RelayedRequest,
        mailbox: Mailbox,
        waiting: Waiting,
        first: Sequence[Item],
    ) -> None:
        try:
            for item in first:
                await reader.feed(item)
            # From its first heartbeat on, the server watches whether the client leaves.
            await reader.feed(Beat())
            while mailbox.waiting.get(waiting.task_id) is waiting:
                await mailbox.moved()
            end = await mailbox.end(waiting.task_id)
            if end is not None and not end.is_unsure:
                reader.finish(end.last_entry)
                return
            # The agent sends heartbeats of its own, and ours would part its frames.
            self.heartbeats.discard(reader)
            await self._continue(reader, request, waiting)
        except StoreError:
            error = Unavailable(
                "The relay cannot use its mailbox at the moment; subscribe to the task later",
                retry_after_s=5,
            )
            reader.finish(NoReply(error))
        except TrunklineError as error:
            reader.finish(NoReply(error))
        finally:
            reader.end()

    async def _continue(
        self, reader: FedSubscription, request: RelayedRequest, waiting: Waiting
    ) -> None:
        stream = await self._subscribed(continuation(request, waiting))
        try:
            async for data in _frames(stream, is_jsonrpc=request.address.is_jsonrpc):
                await reader.feed(Framed(data))
        finally:
            stream.close()
        reader.end()

    async def _subscribed(self, call: HostCall) -> OpenStream:
        """Raises Unavailable."""
        until = self.clock.monotonic() + _SUBSCRIBE_S
        while True:
            try:
                way = await self.calls.way(call.agent, within_s=_SUBSCRIBE_S)
                return self.calls.open(way, call)
            except CannotOpen as error:
                if self.clock.monotonic() >= until:
                    raise Unavailable(
                        f"The agent has the task, and takes no subscription now: {error}; "
                        "subscribe to it later",
                        retry_after_s=5,
                    ) from None
            await self.clock.sleep(_RETRY_S)


def continuation(request: RelayedRequest, waiting: Waiting) -> HostCall:
    """The request that follows the task behind its first event, as its client would write it."""
    below, body = _below(request), b""
    query = request.scope["query_string"].decode("latin-1")
    if request.address.is_jsonrpc:
        body = _jsonrpc_body(request.body, waiting)
    elif below.endswith(_SEND):
        below = f"{below.removesuffix(_SEND)}/tasks/{quote(waiting.task_id, safe='')}:subscribe"
    caller = request.caller
    if caller.operations is not None:
        # Whoever may send a message and read the stream of it, may read that stream.
        operations = {*caller.operations, Operation.SUBSCRIBE_TO_TASK.value}
        caller = replace(caller, operations=tuple(sorted(operations)))
    return HostCall(
        agent=request.address.agent,
        caller=caller,
        method="POST",
        target=target_of(request.address.agent, below) + (f"?{query}" if query else ""),
        headers=_headers(request),
        body=body,
    )


def _below(request: RelayedRequest) -> str:
    """The path below the agent, percent-encoded as it came."""
    raw = request.scope.get("raw_path")
    path = quote(request.scope["path"]) if raw is None else raw.partition(b"?")[0].decode("latin-1")
    parts = path.split("/", 5)
    return f"/{parts[5]}" if len(parts) > 5 else ""


class _Envelope(Struct):
    id: Raw
    method: str


_decode = msgspec.json.Decoder(_Envelope).decode
_encode = msgspec.json.Encoder().encode


def _jsonrpc_body(body: bytes, waiting: Waiting) -> bytes:
    envelope = _decode(body)
    params = {"id": waiting.task_id}
    if waiting.owner.tenant:
        params["tenant"] = waiting.owner.tenant
    return _encode(
        {
            "jsonrpc": "2.0",
            "id": envelope.id,
            "method": _METHODS[envelope.method],
            "params": params,
        }
    )


def _headers(request: RelayedRequest) -> list[Header]:
    kept = [
        (name, value)
        for name, value in headers.of_request(request.scope["headers"])
        if name not in _NOT_REPEATED and (name != "content-type" or request.address.is_jsonrpc)
    ]
    return [*kept, ("last-event-id", "1")]


async def _frames(stream: OpenStream, *, is_jsonrpc: bool) -> AsyncIterator[bytes]:
    """The answer to a subscription, as whole frames. Raises Unavailable or AgentLost."""
    events: WholeEvents | None = None
    refusal = b""
    while True:
        match await stream.next():
            case Accepted():
                continue
            case Answered(_, status, lines):
                kind = dict(lines).get("content-type", "")
                if status == 200 and kind.startswith("text/event-stream"):
                    events = WholeEvents()
            case Cancelled() as end:
                raise why_ended(end)
            case Piece(_, data, is_last):
                if events is None:
                    refusal += data[:_MAX_ERROR_BYTES]
                elif data := events.feed(data) + (events.rest if is_last else b""):
                    yield data
                if is_last:
                    break
    if refusal:
        # The agent has refused the subscription.
        yield sse.frame(refusal[:_MAX_ERROR_BYTES], event="" if is_jsonrpc else "error")
