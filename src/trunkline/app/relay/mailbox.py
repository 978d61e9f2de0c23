"""`RelayMailbox`: the mailbox of the relay, put together, and the requests that it answers."""

from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Never

from trunkline.app.relay.answers import RelayAnswers
from trunkline.background import BackgroundTasks
from trunkline.clock import Uuid7Ids
from trunkline.model.calls import ListTasksRequest, Operation, SendMessageRequest, TaskRequest
from trunkline.model.errors import (
    IdempotencyConflict,
    InvalidParams,
    StoreError,
    Unavailable,
    WrongHttpMethod,
)
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure
from trunkline.ports.store import Store
from trunkline.protocol.cards import form_for
from trunkline.protocol.operations import OPTIONAL, STREAMING, RequestValue
from trunkline.protocol.relay.addresses import CARD_PATHS
from trunkline.protocol.versions import Version, negotiate
from trunkline.relay.host_calls import HostCalls, not_attached
from trunkline.relay.known_agents import KnownAgent, KnownAgents
from trunkline.relay.mailbox.commands import MailCommands
from trunkline.relay.mailbox.couriers import Couriers
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.mailboxes import TOPIC, Mailboxes
from trunkline.relay.mailbox.merged_lists import is_own_token, matching
from trunkline.relay.mailbox.operations import MailboxOperations, MailboxParts, digest_of
from trunkline.relay.mailbox.records import Owner
from trunkline.relay.mailbox.streams import MailboxStreams
from trunkline.relay.mailbox.waiting import Waiting
from trunkline.relay.policies import AgentPolicies
from trunkline.relay.relay import Relay
from trunkline.relay.requests import PRESENCE, RelayedRequest
from trunkline.runtime.due_work import DueKind
from trunkline.runtime.large_values import LargeValues
from trunkline.runtime.runtime import Runtime
from trunkline.server.asgi import AsgiRequest, AsgiResponse
from trunkline.server.cards import is_fresh
from trunkline.server.endpoint import Endpoint
from trunkline.server.http import Header

# How often a request looks whether its agent is back.
_LOOK_S: Final = 0.25
_SENDS: Final = (Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE)


class _AwayEndpoint(Endpoint):
    """That of an agent that is away: what only the agent can answer waits for it."""

    def check_offered(self, operation: Operation, version: Version) -> None:
        if operation in OPTIONAL and operation not in STREAMING:
            raise not_attached()
        super().check_offered(operation, version)


def _unusable() -> Unavailable:
    # The store's own messages name files of this machine.
    return Unavailable(
        "The relay cannot use its mailbox at the moment; try again later", retry_after_s=5
    )


async def _refuse(*_: object, **__: object) -> Never:
    raise _unusable()


# The operations of every agent while the store is unusable.
_UNUSABLE: Final[Any] = SimpleNamespace(
    **dict.fromkeys(("send", "stream", "get", "list", "cancel", "subscribe"), _refuse)
)


class RelayMailbox:
    """Implements `AtRelay`. Made before the runtimes, which take its due work; `connect` comes
    after the relay is there, and `open` after the runtimes are open."""

    def __init__(self, policies: AgentPolicies, *, clock: Clock) -> None:
        self._policies = policies
        self._clock = clock
        self._tasks = BackgroundTasks("mailbox of the relay")
        self.mailboxes = Mailboxes(clock=clock, policies=policies)
        self.commands = MailCommands(
            mailboxes=self.mailboxes, policies=policies, clock=clock, ids=Uuid7Ids()
        )
        self._relay: Relay | None = None
        self._answers: RelayAnswers | None = None
        self._known: KnownAgents | None = None
        self._couriers: Couriers | None = None
        self._calls: HostCalls | None = None
        self._parts: MailboxParts | None = None

    def due_kinds(self) -> Sequence[DueKind]:
        """The due work of the main store."""
        return self.mailboxes.due_kinds()

    def connect(self, relay: Relay, answers: RelayAnswers) -> None:
        self._relay, self._answers = relay, answers
        self._calls = HostCalls(relay, clock=self._clock, tasks=self._tasks)
        self._known = KnownAgents(self._calls, clock=self._clock)
        self._couriers = Couriers(relay, self.mailboxes, self._calls, clock=self._clock)
        relay.listen(self._known)
        relay.listen(self._couriers)

    async def open(self, main: Runtime) -> None:
        """Raises StoreError."""
        store: Store = await main.main.open()
        main.hear(TOPIC, self.mailboxes.hear)
        await self.mailboxes.open(store, is_shared=main.is_shared, tell=partial(main.tell, TOPIC))
        self.known.open(store)
        assert self._calls is not None
        self._parts = MailboxParts(
            clock=self._clock,
            ids=Uuid7Ids(),
            calls=self._calls,
            streams=MailboxStreams(
                calls=self._calls,
                clock=self._clock,
                tasks=self._tasks,
                heartbeats=main.service.readers.subscriptions,
            ),
            large_values=LargeValues(store),
        )

    @property
    def known(self) -> KnownAgents:
        assert self._known is not None, "the mailbox is not connected"
        return self._known

    async def close(self) -> None:
        if self._couriers is not None:
            await self._couriers.close()
        if self._known is not None:
            await self._known.close()
        await self.mailboxes.close()
        await self._tasks.close()

    def figures(self) -> Iterator[Figure]:
        yield from self.mailboxes.figures()

    async def knows(self, agent: str) -> bool:
        """Whether the agent was attached once, as far as the store can say now."""
        try:
            return await self.known.find(agent) is not None
        except StoreError:
            return False

    # `AtRelay`.

    def concerns(self, agent: str) -> bool:
        return self.mailboxes.concerns(agent)

    async def returned(self, agent: str) -> bool:
        policy = self._policies.of(agent)
        if policy.mailbox != "wait" or await self.known.find(agent) is None:
            return False
        assert self._relay is not None
        until = self._clock.monotonic() + policy.wait_s
        while self._clock.monotonic() < until:
            if await self._relay.connected(agent, within_s=_LOOK_S) is not None:
                return True
            await self._clock.sleep(_LOOK_S)
        return False

    async def answer(self, request: RelayedRequest, *, is_away: bool) -> bool:
        try:
            return await self._answer(request, is_away=is_away)
        except StoreError:
            assert self._answers is not None
            if request.address.below in CARD_PATHS:
                raise _unusable() from None
            agent = request.address.agent
            endpoint = self._answers.endpoint(agent, _UNUSABLE, make=_AwayEndpoint)
            await self._answers.serve(request, endpoint)
            return True

    async def _answer(self, request: RelayedRequest, *, is_away: bool) -> bool:
        agent = request.address.agent
        is_card = request.address.below in CARD_PATHS
        # While the agent is here, its card and most requests cost the store nothing.
        if not is_away and (is_card or not await self._is_about_mail(request)):
            return False
        known = await self.known.find(agent)
        if known is None:
            return False
        if is_card:
            await _answer_card(request, known)
            return True
        assert self._answers is not None
        operations = await self._operations(request, is_away=is_away)
        make = _AwayEndpoint if is_away else Endpoint
        endpoint = self._answers.endpoint(agent, operations, known.card, make=make)
        await self._answers.serve(request, endpoint)
        return True

    async def _operations(self, request: RelayedRequest, *, is_away: bool) -> MailboxOperations:
        assert self._parts is not None
        agent = request.address.agent
        return MailboxOperations(
            parts=self._parts,
            mailbox=await self.mailboxes.of(agent),
            request=request,
            policy=self._policies.of(agent),
            is_away=is_away,
        )

    async def _is_about_mail(self, request: RelayedRequest) -> bool:
        """Whether a request to an agent that is here concerns what waits, or ended, at the
        relay."""
        assert self._answers is not None
        operations = await self._operations(request, is_away=False)
        endpoint = self._answers.endpoint(request.address.agent, operations)
        read = self._answers.read(request, endpoint)
        # A request that is not valid is for the agent to refuse.
        return read is not None and await _concerns(operations.mailbox, request, *read)


async def _concerns(
    mailbox: Mailbox, request: RelayedRequest, operation: Operation, value: RequestValue
) -> bool:
    """Whether the request is about what waits, or ended, at the relay."""
    owner = Owner(request.caller.id, value.tenant)
    if isinstance(value, SendMessageRequest) and operation in _SENDS:
        return await _concerns_send(mailbox, request, owner, value)
    if isinstance(value, ListTasksRequest):
        try:
            return is_own_token(value.page_token) or bool(matching(value, mailbox.of(owner)))
        except InvalidParams:
            return False
    if not isinstance(value, TaskRequest):
        return False
    return await _is_here(mailbox, owner, value.id)


async def _concerns_send(
    mailbox: Mailbox, request: RelayedRequest, owner: Owner, value: SendMessageRequest
) -> bool:
    message = value.message
    if message.task_id:
        return await _is_here(mailbox, owner, message.task_id)
    key = dict(request.scope["headers"]).get(b"idempotency-key", b"").decode("latin-1")
    try:
        repeated = mailbox.repeated(
            owner, key=key, message_id=message.message_id, digest=digest_of(value)
        )
    except IdempotencyConflict:
        return True
    if repeated is not None:
        return await _is_here(mailbox, owner, repeated.task_id)
    # It comes behind the letters of its context.
    return bool(message.context_id) and any(
        each.context_id == message.context_id for each in mailbox.of(owner)
    )


async def _is_here(mailbox: Mailbox, owner: Owner, task_id: str) -> bool:
    """Whether a task waits here, or has ended here, once it is known where it is."""

    def is_known(waiting: Waiting) -> bool:
        return mailbox.waiting.get(task_id) is not waiting or not waiting.is_unsure

    waiting = mailbox.find(owner, task_id)
    if waiting is not None:
        try:
            await mailbox.until(partial(is_known, waiting))
        except Unavailable:
            # The operation says so in the form of the binding.
            return True
    note = mailbox.ended.get(task_id)
    has_ended = note is not None and note.owner == owner and not note.is_unsure
    return mailbox.find(owner, task_id) is not None or has_ended


async def _answer_card(request: RelayedRequest, known: KnownAgent) -> None:
    """The card as the agent served it. Raises Unavailable and what the agent would."""
    asgi = AsgiRequest.of(request.scope, request.receive)
    if asgi.method not in ("GET", "HEAD"):
        raise WrongHttpMethod("The agent card is read with GET", allow="GET, HEAD")
    stated = negotiate(asgi.header(b"a2a-version"), asgi.query_value("A2A-Version"))
    copy = known.cards.get(form_for(stated, asgi.query_value("format")))
    if copy is None:
        raise not_attached()
    headers: list[Header] = [
        (PRESENCE, b"offline"),
        # The presence changes without the card.
        (b"cache-control", b"no-cache"),
        (b"vary", b"A2A-Version"),
    ]
    if copy.etag:
        headers.append((b"etag", copy.etag.encode("latin-1")))
    response = AsgiResponse(request.send)
    if copy.etag and is_fresh(asgi, copy.etag, None):
        await response.begin(304, headers)
        await response.end()
        return
    await response.answer(
        200, copy.body, content_type=copy.content_type.encode("latin-1"), headers=headers
    )
