"""`KnownAgents`: the agents that were attached once, with copies of their cards.

The relay fetches the public card of an agent after each new lease, in each of its forms, and serves
the copies byte for byte while the agent is away: a signed card stays valid.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.background import BackgroundTasks
from trunkline.model.card import AgentCard
from trunkline.model.errors import InvalidAgentResponse, RecordConflict, StoreError, TrunklineError
from trunkline.ports.clock import Clock
from trunkline.ports.records import Add, Change, Key, Put, Record
from trunkline.ports.store import Store
from trunkline.protocol import card_reading
from trunkline.protocol.cards import Form
from trunkline.protocol.relay.addresses import CARD_PATHS, target_of
from trunkline.protocol.relay.callers import Caller
from trunkline.relay.host_calls import HostAnswer, HostCall, HostCalls

_log: Final = logging.getLogger("trunkline.relay")

AGENT: Final = "relay-agent.1"
# How many of them a tenant has.
COUNT: Final = "relay-agent-count.1"
# Each has its cards and a mailbox, and nothing deletes them.
MAX_OF_ONE: Final = 10_000
# Reads cards, and may call nothing.
_READER: Final = Caller(id="relay", operations=())
# The header that asks for each form of the card.
FORMS: Final[dict[Form, str]] = {"hybrid": "", "1.0": "1.0", "0.3": "0.3"}
# The agents whose cards are read at a time.
MAX_READ: Final = 32
MAX_CARD_BYTES: Final = 512 * 1024
# When to ask again for a card that could not be read.
_RETRIES_S: Final = (1.0, 5.0, 30.0)
_SETTLED_S: Final = 1.0
# How exact it is known when an agent was seen last.
_SEEN_MS: Final = 10_000
# Each may have three cards of the largest size.
_PAGE: Final = 16
_ATTEMPTS: Final = 20


class CardCopy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The card in one form, as the host has served it."""

    body: bytes
    content_type: str = "application/json"
    etag: str = ""


class KnownAgent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    first_seen_ms: int
    # When it came or left last.
    last_seen_ms: int
    # By their forms; without those that the host does not serve.
    cards: dict[str, CardCopy] = {}

    @property
    def card(self) -> AgentCard | None:
        """What the card says; None where there is none that can be read."""
        copy = self.cards.get("1.0") or self.cards.get("hybrid") or self.cards.get("0.3")
        if copy is None:
            return None
        try:
            return card_reading.decode(copy.body)
        except InvalidAgentResponse:
            return None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(KnownAgent).decode


class KnownAgents:
    """A `LeaseListener`."""

    def __init__(self, calls: HostCalls, *, clock: Clock, max_of_one: int = MAX_OF_ONE) -> None:
        """No tenant has more than `max_of_one`; others can be called while they are attached."""
        self._calls = calls
        self._max_of_one = max_of_one
        self._clock = clock
        self._tasks = BackgroundTasks("known agents")
        self._store: Store | None = None
        self._leased: set[str] = set()
        # A host may have hundreds of agents.
        self._may_read = asyncio.Semaphore(MAX_READ)

    def open(self, store: Store) -> None:
        self._store = store

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def store(self) -> Store:
        assert self._store is not None, "the known agents are not open"
        return self._store

    def leased(self, agent: str) -> None:
        self._leased.add(agent)
        self._tasks.spawn(self._came(agent), name="read the card of an agent")

    def released(self, agent: str) -> None:
        self._leased.discard(agent)
        _ = self._tasks.start(self._seen(agent), name="remember when an agent left")

    async def find(self, agent: str) -> KnownAgent | None:
        """Raises StoreError."""
        record = await self.store.record(_key(agent))
        return None if record is None else _decode(record.body)

    async def of_tenant(self, tenant: str) -> AsyncIterator[tuple[str, KnownAgent]]:
        """The agents of a tenant, by their ids there. Raises StoreError."""
        after: Key | None = None
        while page := await self.store.records(AGENT, scope=tenant, after=after, limit=_PAGE):
            for record in page:
                yield record.key.id, _decode(record.body)
            after = page[-1].key

    async def keep(self, agent: str, cards: dict[str, CardCopy]) -> None:
        """The agent is, or was, here; these are its cards, if there are any. Raises StoreError."""
        for _ in range(_ATTEMPTS):
            record = await self.store.record(_key(agent))
            changes: list[Change] = [
                Put(
                    key=_key(agent),
                    body=_encode(self._renewed(record, cards)),
                    expected=0 if record is None else record.version,
                )
            ]
            if record is None:
                count = Key(COUNT, agent.partition("/")[0], "")
                changes.append(Add(key=count, amount=1, at_most=self._max_of_one))
            try:
                await self.store.change(*changes)
            except RecordConflict:
                continue
            return

    def _renewed(self, record: Record | None, cards: dict[str, CardCopy]) -> KnownAgent:
        now_ms = self._clock.now_ms()
        known = KnownAgent(first_seen_ms=now_ms, last_seen_ms=now_ms)
        if record is not None:
            known = replace(_decode(record.body), last_seen_ms=now_ms)
        return replace(known, cards=cards) if cards else known

    async def remember(self, agent: str, cards: dict[str, CardCopy]) -> None:
        """Like `keep`, for those who go on without it."""
        try:
            await self.keep(agent, cards)
        except StoreError as error:
            _log.warning(
                "an agent cannot be remembered", extra={"agent": agent, "reason": error.message}
            )

    async def _came(self, agent: str) -> None:
        # At once, because messages are queued for known agents alone.
        known = await self._seen(agent)
        # An agent whose card is known is not asked while all hosts come back at once.
        is_new = known is None or not known.cards
        for wait_s in (0.0 if is_new else _SETTLED_S, *_RETRIES_S):
            await self._clock.sleep(wait_s)
            async with self._may_read:
                if agent not in self._leased:
                    return
                cards = await self._fetched(agent)
            if cards:
                if known is None or known.cards != cards:
                    await self.remember(agent, cards)
                return

    async def _seen(self, agent: str) -> KnownAgent | None:
        """The agent as it was known, with the time when it was seen last renewed if that is
        old."""
        try:
            known = await self.find(agent)
        except StoreError:
            return None
        if known is None or self._clock.now_ms() - known.last_seen_ms >= _SEEN_MS:
            await self.remember(agent, {})
        return known

    async def _fetched(self, agent: str) -> dict[str, CardCopy]:
        found: dict[str, CardCopy] = {}
        for form, version in FORMS.items():
            call = HostCall(
                agent=agent,
                caller=_READER,
                method="GET",
                target=target_of(agent, CARD_PATHS[0]),
                headers=(("a2a-version", version),) if version else (),
            )
            try:
                answer = await self._calls.answer(call, max_bytes=MAX_CARD_BYTES)
            except TrunklineError as error:
                _log.info("a card cannot be read", extra={"agent": agent, "reason": error.message})
                continue
            if answer.status == 200:
                found[form] = _copy(answer)
        return found


def _copy(answer: HostAnswer) -> CardCopy:
    return CardCopy(
        body=answer.body,
        content_type=answer.header("content-type") or "application/json",
        etag=answer.header("etag"),
    )


def _key(agent: str) -> Key:
    tenant, _, id = agent.partition("/")
    return Key(AGENT, tenant, id)
