"""`RemoteAgent`: the calls of A2A to one agent; `Agents` and `connect` make them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Final, TypeAlias, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from trunkline.clock import SystemClock, chance, new_key
from trunkline.model.calls import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse
from trunkline.model.values import Message, Part, Role, Task
from trunkline.ports.clock import Clock
from trunkline.protocol.client_responses import ANSWERS, Answers, StreamItem, TaskPage
from trunkline.protocol.dialect import PushConfigQuery, RequestValue
from trunkline.protocol.operations import Operation
from trunkline.remote.credentials import Bearer, Credentials, header_of
from trunkline.remote.errors import BadPeerAnswer
from trunkline.remote.http import Network
from trunkline.remote.peer_client import PeerClient
from trunkline.remote.streams import ResumingStream
from trunkline.remote.target import Limits, Target, check_header, merged, own_headers

T = TypeVar("T")


async def _nothing() -> None:
    pass


class RemoteAgent:
    """The calls of A2A. Values are those of 1.0, whatever the peer speaks.

    Every call raises RemoteError, and nothing else, for what the peer or the network did.
    A cancellation of the caller is passed on as what it is.
    """

    def __init__(
        self,
        link: PeerClient,
        *,
        limits: Limits,
        headers: Mapping[str, str],
        close: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._link = link
        self._limits = limits
        target = link.target
        self._headers = own_headers(headers, *target.headers, *header_of(target.credentials))
        # Whoever brings a key of their own may send a message again.
        self._has_key = any(name.lower() == "idempotency-key" for name in headers)
        self._close = close

    @property
    def target(self) -> Target:
        return self._link.target

    async def __aenter__(self) -> "RemoteAgent":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._close()

    async def card(self, *, fresh: bool = False) -> AgentCard:
        """What the agent says of itself; `fresh` asks it even if the last answer still holds."""
        return await self._link.card(self._limits, fresh=fresh)

    async def served_card(self) -> bytes:
        """The card as the agent serves it, with all that we know nothing of."""
        return (await self._link.known(self._limits)).body

    async def is_trunkline(self) -> bool:
        """Whether a Trunkline gateway served the card."""
        return any((await self._link.known(self._limits)).features)

    async def extended_card(self) -> AgentCard:
        """What the agent says of itself to those it knows."""
        request = GetExtendedAgentCardRequest()
        return await self._ask(
            Operation.GET_EXTENDED_AGENT_CARD, request, lambda _, body: self._link.read_card(body)
        )

    async def send(self, request: SendMessageRequest | str) -> Task | Message:
        """The answer; unless `return_immediately`, when the task has settled."""
        headers, is_repeatable = await self._send_headers()
        reply = await self._link.call(
            Operation.SEND_MESSAGE,
            _as_request(request),
            limits=self._limits,
            headers=headers,
            is_repeatable=is_repeatable,
        )
        try:
            return ANSWERS[reply.endpoint.binding, reply.endpoint.version].sent(reply.payload)
        except InvalidAgentResponse as error:
            raise self._link.reader.bad(error) from None

    async def stream(self, request: SendMessageRequest | str) -> AsyncGenerator[StreamItem, None]:
        """The answer as it comes. A connection that breaks is made again and goes on.

        A task within the stream stands for all that came before it. An agent that does not
        stream gives its answer as one item.
        """
        card = (await self._link.known(self._limits)).card
        if card.capabilities.streaming is False:
            yield await self.send(request)
            return
        headers, is_repeatable = await self._send_headers()
        follower = ResumingStream(
            self._link, limits=self._limits, headers=headers, is_repeatable=is_repeatable
        )
        async with aclosing(follower.follow(_as_request(request))) as items:
            async for item in items:
                yield item

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamItem, None]:
        """The task as it is, and what happens to it until it ends."""
        follower = ResumingStream(
            self._link, limits=self._limits, headers=self._headers, is_repeatable=True
        )
        async with aclosing(follower.follow(SubscribeToTaskRequest(id=task_id))) as items:
            async for item in items:
                yield item

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        request = GetTaskRequest(id=task_id, history_length=history_length)
        return _same(task_id, await self._ask(Operation.GET_TASK, request, _task))

    async def list(self, request: ListTasksRequest | None = None) -> TaskPage:
        """One page of the caller's tasks. Agents of 0.3 need not know this call."""
        return await self._ask(
            Operation.LIST_TASKS,
            request or ListTasksRequest(),
            lambda read, body: read.page(body),
        )

    async def cancel(self, task_id: str) -> Task:
        request = CancelTaskRequest(id=task_id)
        task = await self._ask(Operation.CANCEL_TASK, request, _task, is_repeatable=False)
        return _same(task_id, task)

    async def set_push_config(
        self, config: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Have the agent report about the task `config.task_id` to `config.url`."""
        return await self._ask(
            Operation.CREATE_PUSH_CONFIG,
            config,
            lambda read, body: read.push_config(body),
            # Without an id, each one would be a further one.
            is_repeatable=bool(config.id),
        )

    async def get_push_config(self, task_id: str, id: str) -> TaskPushNotificationConfig:
        return await self._ask(
            Operation.GET_PUSH_CONFIG,
            PushConfigQuery(task_id=task_id, id=id),
            lambda read, body: read.push_config(body),
        )

    async def list_push_configs(self, task_id: str) -> tuple[TaskPushNotificationConfig, ...]:
        return await self._ask(
            Operation.LIST_PUSH_CONFIGS,
            PushConfigQuery(task_id=task_id),
            lambda read, body: read.push_configs(body),
        )

    async def delete_push_config(self, task_id: str, id: str) -> None:
        query = PushConfigQuery(task_id=task_id, id=id)
        await self._ask(Operation.DELETE_PUSH_CONFIG, query, lambda read, body: None)

    async def _send_headers(self) -> tuple[Mapping[str, str], bool]:
        """The headers of a message, and whether it may be sent twice."""
        wanted = self._link.target.idempotency
        if wanted == "auto":
            features = (await self._link.known(self._limits)).features
            wanted = "always" if "idempotency-key" in features else "never"
        if self._has_key or wanted == "never":
            return self._headers, self._has_key
        return {**self._headers, "Idempotency-Key": new_key()}, True

    async def _ask(
        self,
        operation: Operation,
        request: RequestValue,
        read: Callable[[Answers, bytes], T],
        *,
        is_repeatable: bool = True,
    ) -> T:
        reply = await self._link.call(
            operation,
            request,
            limits=self._limits,
            headers=self._headers,
            is_repeatable=is_repeatable,
        )
        return self._read(
            ANSWERS[reply.endpoint.binding, reply.endpoint.version], reply.payload, read
        )

    def _read(self, answers: Answers, payload: bytes, read: Callable[[Answers, bytes], T]) -> T:
        try:
            return read(answers, payload)
        except InvalidAgentResponse as error:
            raise self._link.reader.bad(error) from None


def _as_request(request: SendMessageRequest | str) -> SendMessageRequest:
    """A text is a message of the user with nothing else to it."""
    if not isinstance(request, str):
        return request
    parts = (Part(text=request),)
    return SendMessageRequest(message=Message(message_id=new_key(), role=Role.USER, parts=parts))


def _task(read: Answers, body: bytes) -> Task:
    return read.task(body)


def _same(task_id: str, task: Task) -> Task:
    if task.id != task_id:
        raise BadPeerAnswer("the agent answers with another task than the one asked for")
    return task


def within(limits: Limits, timeout_s: float | None) -> Limits:
    """One number for callers who want no more: for a call, and for silence on a stream."""
    return limits if timeout_s is None else replace(limits, call_s=timeout_s, idle_s=timeout_s)


_Key: TypeAlias = tuple[
    str,
    str,
    tuple[str, ...],
    str,
    str,
    frozenset[tuple[str, str]],
    Credentials | None,
    tuple[str, ...],
    bool,
    tuple[str, ...],
    bool,
]


# A request may name any url where the policy allows it; so many are kept of what that makes.
MAX_LINKS: Final = 500


class Agents:
    """One set of connections, one card and one circuit per target, for as long as it lives.

    Targets that differ in credentials or headers share nothing. Beyond `max_links`, the one
    not called for longest is forgotten, and begins anew when it is called again.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = chance,
        max_links: int = MAX_LINKS,
        network: Network | None = None,
    ) -> None:
        """`network` stands for the system's own, for tests."""
        self._limits = limits or Limits()
        self._clock: Clock = clock or SystemClock()
        self._chance = chance
        self._max_links = max_links
        self._network = network
        # The one that was asked for last is at the end.
        self._links: dict[_Key, PeerClient] = {}
        # Whoever still uses one of these goes on with it.
        self._forgotten: WeakSet[PeerClient] = WeakSet()

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
        link = self._links.pop(key, None)
        if link is None:
            link = PeerClient(
                target,
                limits=self._limits,
                clock=self._clock,
                chance=self._chance,
                network=self._network,
            )
        self._links[key] = link
        if len(self._links) > self._max_links:
            self._forgotten.add(self._links.pop(next(iter(self._links))))
        return RemoteAgent(
            link, limits=_within(self._limits, target, timeout_s), headers=headers or {}
        )

    async def close(self) -> None:
        links = [*self._links.values(), *self._forgotten]
        self._links = {}
        for link in links:
            await link.close()


def _key(target: Target) -> _Key:
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
    )


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
    link = PeerClient(target, limits=limits, clock=clock or SystemClock(), chance=chance)
    limits = _within(limits, target, timeout_s)
    return RemoteAgent(link, limits=limits, headers={}, close=link.close)


def _within(limits: Limits, target: Target, timeout_s: float | None) -> Limits:
    return within(limits, target.timeout_s if timeout_s is None else timeout_s)
