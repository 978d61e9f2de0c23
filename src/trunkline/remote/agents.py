"""`RemoteAgent`: the calls of A2A to one agent; `Agents` and `connect` make them."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from trunkline.clock import SystemClock, chance, new_key
from trunkline.model import calls
from trunkline.model.calls import Operation, PushConfigQuery, SendMessageRequest
from trunkline.model.card import AgentCard
from trunkline.model.values import Message, Part, Role, Task
from trunkline.ports.clock import Clock
from trunkline.ports.wire_log import ClientTap
from trunkline.protocol.client_responses import StreamItem, TaskPage
from trunkline.protocol.operations import RequestValue
from trunkline.remote.credentials import Bearer
from trunkline.remote.errors import BadPeerAnswer
from trunkline.remote.http import Network
from trunkline.remote.peer_client import CallOptions, PeerClient, ReadResult
from trunkline.remote.streams import ResumingStream
from trunkline.remote.target import Limits, Target, check_header, merged, own_headers

T = TypeVar("T")

# A request may name any URL where the policy allows it, so the number of clients is bounded.
MAX_CLIENTS: Final = 500


class Peer(Protocol):
    """The calls of `RemoteAgent` that backends and tools make. Each raises only RemoteError."""

    async def card(self, *, fresh: bool = False) -> AgentCard: ...

    async def send(self, request: SendMessageRequest) -> Task | Message: ...

    def stream(self, request: SendMessageRequest) -> AsyncGenerator[StreamItem, None]: ...

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]: ...

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task: ...

    async def cancel(self, task_id: str) -> Task: ...


class RemoteAgent:
    """The calls of A2A. Values are those of 1.0, whatever version the peer speaks.

    Every call raises RemoteError, and nothing else, for a fault of the peer or the network.
    A cancellation of the caller passes through.
    """

    def __init__(
        self,
        client: PeerClient,
        *,
        limits: Limits,
        headers: Mapping[str, str],
        owns_client: bool = False,
    ) -> None:
        self._client = client
        self._owns_client = owns_client
        target = client.target
        own = own_headers(headers, target.credentials, *target.headers)
        self._options = CallOptions(limits, own)
        # A caller that brings a key of its own may send a message again.
        self._has_key = any(name.lower() == "idempotency-key" for name in headers)

    @property
    def target(self) -> Target:
        return self._client.target

    async def __aenter__(self) -> "RemoteAgent":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owns_client:
            await self._client.close()

    async def card(self, *, fresh: bool = False) -> AgentCard:
        """The card of the agent; `fresh` asks for it even if the last answer is still valid."""
        return await self._client.card(self._options.limits, fresh=fresh)

    async def served_card(self) -> bytes:
        """The card as the agent serves it, with the fields that we do not know."""
        return (await self._client.cached_card(self._options.limits)).body

    async def is_trunkline(self) -> bool:
        """Whether a Trunkline gateway served the card."""
        return any((await self._client.cached_card(self._options.limits)).features)

    async def extended_card(self) -> AgentCard:
        """The card that the agent shows to authenticated callers."""
        return await self._call(
            Operation.GET_EXTENDED_AGENT_CARD,
            calls.GetExtendedAgentCardRequest(),
            lambda _, body: self._client.read_card(body),
        )

    async def send(self, request: SendMessageRequest | str) -> Task | Message:
        """The answer; unless `return_immediately`, when the task has settled."""
        return await self._client.call(
            Operation.SEND_MESSAGE,
            _as_request(request),
            lambda read, body: read.sent(body),
            await self._send_options(),
        )

    async def stream(self, request: SendMessageRequest | str) -> AsyncGenerator[StreamItem, None]:
        """The answer as it arrives. A broken connection is replaced and the stream continues.

        A task within the stream replaces everything before it. An agent that does not stream
        gives its answer as one item.
        """
        card = (await self._client.cached_card(self._options.limits)).card
        if card.capabilities.streaming is False:
            yield await self.send(request)
            return
        stream = ResumingStream(self._client, await self._send_options())
        async with aclosing(stream.follow(_as_request(request))) as items:
            async for item in items:
                yield item

    def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        """The task as it is, and its events until it ends."""
        stream = ResumingStream(self._client, self._options)
        return stream.follow(calls.SubscribeToTaskRequest(id=task_id))

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        request = calls.GetTaskRequest(id=task_id, history_length=history_length)
        task = await self._call(Operation.GET_TASK, request, lambda read, body: read.task(body))
        return _same(task_id, task)

    async def list(self, request: calls.ListTasksRequest | None = None) -> TaskPage:
        """One page of the caller's tasks. Agents of 0.3 need not know this call."""
        request = request or calls.ListTasksRequest()
        return await self._call(Operation.LIST_TASKS, request, lambda read, body: read.page(body))

    async def cancel(self, task_id: str) -> Task:
        task = await self._call(
            Operation.CANCEL_TASK,
            calls.CancelTaskRequest(id=task_id),
            lambda read, body: read.task(body),
            is_repeatable=False,
        )
        return _same(task_id, task)

    async def set_push_config(
        self, config: calls.TaskPushNotificationConfig
    ) -> calls.TaskPushNotificationConfig:
        """Have the agent report about the task `config.task_id` to `config.url`."""
        return await self._call(
            Operation.CREATE_PUSH_CONFIG,
            config,
            lambda read, body: read.push_config(body),
            # Without an id, a repeated request would create a second configuration.
            is_repeatable=bool(config.id),
        )

    async def get_push_config(self, task_id: str, id: str) -> calls.TaskPushNotificationConfig:
        query = PushConfigQuery(task_id=task_id, id=id)
        return await self._call(
            Operation.GET_PUSH_CONFIG, query, lambda read, body: read.push_config(body)
        )

    async def list_push_configs(self, task_id: str) -> tuple[calls.TaskPushNotificationConfig, ...]:
        query = PushConfigQuery(task_id=task_id)
        return await self._call(
            Operation.LIST_PUSH_CONFIGS, query, lambda read, body: read.push_configs(body)
        )

    async def delete_push_config(self, task_id: str, id: str) -> None:
        query = PushConfigQuery(task_id=task_id, id=id)
        await self._call(Operation.DELETE_PUSH_CONFIG, query, lambda read, body: None)

    async def _send_options(self) -> CallOptions:
        """The options of a message, which may be sent twice with a key that the peer honours."""
        wanted, options = self._client.target.idempotency, self._options
        if wanted == "auto":
            features = (await self._client.cached_card(options.limits)).features
            wanted = "always" if "idempotency-key" in features else "never"
        if self._has_key or wanted == "never":
            return replace(options, is_repeatable=self._has_key)
        return replace(options, headers={**options.headers, "Idempotency-Key": new_key()})

    async def _call(
        self,
        operation: Operation,
        request: RequestValue,
        read: ReadResult[T],
        *,
        is_repeatable: bool = True,
    ) -> T:
        options = replace(self._options, is_repeatable=is_repeatable)
        return await self._client.call(operation, request, read, options)


def _as_request(request: SendMessageRequest | str) -> SendMessageRequest:
    """A text stands for a message of the user with this text alone."""
    if not isinstance(request, str):
        return request
    parts = (Part(text=request),)
    return SendMessageRequest(message=Message(message_id=new_key(), role=Role.USER, parts=parts))


def _same(task_id: str, task: Task) -> Task:
    if task.id != task_id:
        raise BadPeerAnswer("the agent answers with another task than the one asked for")
    return task


class Agents:
    """One set of connections, one card and one circuit per target, for as long as it lives.

    Targets that differ in credentials or headers share nothing. Beyond `max_links`, the
    connections of the least recently used target are dropped; the next call makes new ones.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = chance,
        max_links: int = MAX_CLIENTS,
        network: Network | None = None,
        tap: ClientTap | None = None,
    ) -> None:
        """`network` replaces the system's own in tests. `tap` is that of the agent whose backend
        calls."""
        self._tap = tap
        self._limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._chance = chance
        self._max_links = max_links
        self._network = network
        # The most recently used one is at the end.
        self._clients: dict[tuple[object, ...], PeerClient] = {}
        # A `RemoteAgent` may still use one of these, so `close` closes them too.
        self._dropped: WeakSet[PeerClient] = WeakSet()

    async def __aenter__(self) -> "Agents":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def at(
        self,
        target: Target,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> RemoteAgent:
        """The agent of the target; `headers` are added to its own. Raises InvalidTarget."""
        for name, value in (headers or {}).items():
            check_header(name, value)
        key = _key(target)
        client = self._clients.pop(key, None)
        if client is None:
            client = PeerClient(
                target,
                limits=self._limits,
                clock=self._clock,
                chance=self._chance,
                network=self._network,
                tap=self._tap,
            )
        self._clients[key] = client
        if len(self._clients) > self._max_links:
            self._dropped.add(self._clients.pop(next(iter(self._clients))))
        limits = _limits_of(self._limits, target, timeout_s)
        return RemoteAgent(client, limits=limits, headers=headers or {})

    async def close(self) -> None:
        clients = [*self._clients.values(), *self._dropped]
        self._clients = {}
        for client in clients:
            await client.close()


def _key(target: Target) -> tuple[object, ...]:
    """The fields that decide where a call goes and which credentials it has."""
    return (
        target.url,
        target.card_path,
        target.transports,
        target.version,
        target.idempotency,
        frozenset(target.headers.items()),
        target.credentials,
        target.card_keys,
        target.require_signature,
        target.trusted_origins,
        target.allow_private,
        target.interfaces,
    )


def _limits_of(limits: Limits, target: Target, timeout_s: float | None) -> Limits:
    """One timeout limits both a call and the silence on a stream."""
    timeout_s = target.timeout_s if timeout_s is None else timeout_s
    return limits if timeout_s is None else replace(limits, call_s=timeout_s, idle_s=timeout_s)


def connect(
    target: str | Target,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> RemoteAgent:
    """An agent to call, with connections of its own: `async with connect(url) as agent`.

    Nothing is sent before the first call. Raises InvalidTarget.
    """
    if isinstance(target, str):
        target = Target(url=target)
    if token:
        target = replace(target, credentials=Bearer(token))
    if headers:
        target = replace(target, headers=merged(target.headers, headers))
    limits = limits or Limits()
    client = PeerClient(target, limits=limits, clock=clock or SystemClock(), chance=chance)
    limits = _limits_of(limits, target, timeout_s)
    return RemoteAgent(client, limits=limits, headers={}, owns_client=True)
