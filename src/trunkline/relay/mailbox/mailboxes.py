"""`Mailboxes`: the mailboxes of all agents of the relay.

Memory has the heads of those that hold something, so a request to any other agent costs nothing. A
mailbox itself is read when it is needed first. Where several nodes share the store, each tells the
others of its changes, and looks at the heads again every few seconds.
"""

import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

from trunkline.background import BackgroundTasks
from trunkline.model.errors import StoreError
from trunkline.ports.clock import Clock
from trunkline.ports.figures import Figure
from trunkline.ports.records import Change, Key, Record
from trunkline.ports.store import Store
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.records import ENDED, HEAD, HOLDS, LETTER, Head, decode_head
from trunkline.relay.policies import AgentPolicies
from trunkline.runtime.due_work import DueKind

_log: Final = logging.getLogger("trunkline.relay")

# What the nodes tell each other: the agent whose mailbox has changed.
TOPIC: Final = "mailbox"
# A notice may be lost; then a node learns of a letter after this time.
LOOK_S: Final = 2.0
_PAGE: Final = 500


class Mailboxes:
    def __init__(self, *, clock: Clock, policies: AgentPolicies) -> None:
        self._clock = clock
        self._policies = policies
        self._tasks = BackgroundTasks("mailboxes")
        self._store: Store | None = None
        self._is_shared = False
        self._tell: Callable[[str], None] = lambda _: None
        self._open: dict[str, Mailbox] = {}
        # Of the mailboxes that hold something and are not open.
        self._heads: dict[str, Head] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._is_failing = False
        # Whether an agent is attached here, which is asked for each notice of another node.
        self.is_here: Callable[[str], bool] = lambda _: False
        self.delivered = 0

    def listen(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` with the agent of a mailbox that has changed."""
        self._listeners.append(on_change)

    def due_kinds(self) -> tuple[DueKind, ...]:
        """The due work of the main store."""
        return (
            DueKind(
                name=LETTER, handle=self._expire, max_attempts=sys.maxsize, committed=self._changed
            ),
            DueKind(
                name=ENDED, handle=self._forget, max_attempts=sys.maxsize, committed=self._changed
            ),
        )

    async def open(self, store: Store, *, is_shared: bool, tell: Callable[[str], None]) -> None:
        """Read which agents have letters. `tell` tells the other nodes. Raises StoreError."""
        self._store, self._is_shared, self._tell = store, is_shared, tell
        await self._look_at_heads()
        if is_shared:
            self._tasks.spawn(self._look_again_and_again(), name="look at mailboxes")

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def store(self) -> Store:
        assert self._store is not None, "the mailboxes are not open"
        return self._store

    def concerns(self, agent: str) -> bool:
        """Whether the mailbox of the agent holds anything."""
        mailbox = self._open.get(agent)
        if mailbox is None:
            return agent in self._heads
        return mailbox.head.holds or not mailbox.is_read

    def waits(self, agent: str) -> bool:
        """Whether letters may wait for the agent."""
        mailbox = self._open.get(agent)
        if mailbox is not None:
            return mailbox.head.count > 0 or not mailbox.is_read
        return agent in self._heads and self._heads[agent].count > 0

    async def of(self, agent: str) -> Mailbox:
        """The mailbox of an agent, as the store has it. Raises StoreError."""
        mailbox = self._open.get(agent)
        if mailbox is None:
            mailbox = self._open[agent] = Mailbox(
                agent,
                store=self.store,
                clock=self._clock,
                policy=lambda: self._policies.of(agent),
                tasks=self._tasks,
                on_change=self._on_change,
            )
        await mailbox.look(again=self._is_shared)
        self._heads.pop(agent, None)
        return mailbox

    def hear(self, agent: str) -> None:
        """Another node has changed the mailbox; of all agents, if it is empty."""
        look = self._look_at_heads() if not agent else self._follow(agent)
        self._tasks.spawn(self._tried(look), name="hear of a mailbox")

    def figures(self) -> Iterator[Figure]:
        heads = [*self._heads.values(), *(each.head for each in self._open.values())]
        waiting = sum(head.count for head in heads)
        oldest_ms = min((head.oldest_ms for head in heads if head.count), default=None)
        age_s = 0.0 if oldest_ms is None else max(0.0, (self._clock.now_ms() - oldest_ms) / 1000)
        dead = sum(head.dead for head in heads)
        yield "trunkline_mailbox_waiting", "Messages that wait for agents that are away.", waiting
        yield "trunkline_mailbox_oldest_seconds", "How long the oldest of them has waited.", age_s
        yield "trunkline_mailbox_dead", "Messages that could not be delivered.", dead
        yield "trunkline_mailbox_delivered_total", "Messages delivered later.", self.delivered

    # The rest is internal.

    def _on_change(self, mailbox: Mailbox, *, is_own: bool) -> None:
        if self._is_shared and is_own:
            self._tell(mailbox.agent)
        for listener in self._listeners:
            listener(mailbox.agent)

    async def _follow(self, agent: str) -> None:
        if not await self._looked_again(agent):
            self._take_over(agent, await self._head(agent))

    async def _looked_again(self, agent: str) -> bool:
        """Read a mailbox again if anything here waits for its changes."""
        mailbox = self._open.get(agent)
        if mailbox is None or not (mailbox.is_watched or self.is_here(agent)):
            return False
        await mailbox.look(again=True)
        return True

    async def _head(self, agent: str) -> Head:
        record = await self.store.record(Key(HEAD, "", agent))
        return Head() if record is None else decode_head(record.body)

    def _take_over(self, agent: str, head: Head) -> None:
        """A node has changed the head of a mailbox, or it is seen for the first time."""
        if (mailbox := self._open.get(agent)) is not None:
            mailbox.note(head)
        elif not head.holds:
            self._heads.pop(agent, None)
        elif self._heads.get(agent) != head:
            self._heads[agent] = head
            for listener in self._listeners:
                listener(agent)

    async def _look_again_and_again(self) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            await self._tried(self._look_at_heads())

    async def _tried(self, look: Coroutine[Any, Any, None]) -> None:
        try:
            await look
        except StoreError as error:
            if not self._is_failing:
                _log.warning("mailboxes cannot be read", extra={"reason": error.message})
            self._is_failing = True
        else:
            self._is_failing = False

    async def stored_heads(self) -> AsyncIterator[tuple[str, Head]]:
        """The heads of mailboxes that hold something, by their agents. Raises StoreError."""
        after: Key | None = None
        while page := await self.store.records(HEAD, scope="", tag=HOLDS, after=after, limit=_PAGE):
            for record in page:
                yield record.key.id, decode_head(record.body)
            after = page[-1].key

    async def _look_at_heads(self) -> None:
        found = {agent: head async for agent, head in self.stored_heads()}
        for agent in [*self._heads.keys() | found.keys()]:
            if agent not in self._open:
                self._take_over(agent, found.get(agent, Head()))
        for agent, mailbox in [*self._open.items()]:
            head = found.get(agent, Head())
            if not (head.holds or mailbox.head.holds) or head == mailbox.head:
                continue
            if not await self._looked_again(agent):
                mailbox.note(head)

    async def _expire(self, record: Record) -> Sequence[Change]:
        return await (await self.of(record.key.scope)).expire(record)

    async def _forget(self, record: Record) -> Sequence[Change]:
        return await (await self.of(record.key.scope)).forget_end(record)

    def _changed(self, record: Record, changes: Sequence[Change]) -> None:
        """Due work has changed a mailbox."""
        self.hear(record.key.scope)
        if self._is_shared:
            self._tell(record.key.scope)
