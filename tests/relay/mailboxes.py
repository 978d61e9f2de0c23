"""`MailboxProcess`: the mailboxes of a relay on a store, which may be dropped as by `kill -9`; and
`Taker`, the application of a host that takes deliveries."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Raw
from tests.relay.world import AGENT, RelayWorld

from trunkline.background import BackgroundTasks
from trunkline.model.events import Entry
from trunkline.model.timestamps import format_timestamp
from trunkline.model.values import Message, Part, Role, Task, TaskState, TaskStatus
from trunkline.ports.store import Store
from trunkline.protocol.relay import deliveries
from trunkline.relay.host_calls import HostCalls
from trunkline.relay.hosts.exchanges import DELIVERY
from trunkline.relay.mailbox.couriers import Couriers
from trunkline.relay.mailbox.mailbox import Mailbox
from trunkline.relay.mailbox.mailboxes import Mailboxes
from trunkline.relay.mailbox.records import ENDED, LETTER, Letter, decode_letter
from trunkline.relay.policies import AgentPolicies, AgentPolicy
from trunkline.relay.relay import RelaySettings
from trunkline.runtime.due_work import DueWork
from trunkline.testing import FakeClock, settle


def letter(
    name: str,
    *,
    context: str = "",
    now_ms: int,
    ttl_s: float = 1000,
    principal: str = "alice",
    text: str = "hello",
    key: str = "",
) -> Letter:
    """Its task has this name."""
    context = context or name
    message = Message(
        message_id=name, task_id=name, context_id=context, role=Role.USER, parts=(Part(text=text),)
    )
    status = TaskStatus(state=TaskState.SUBMITTED, timestamp=format_timestamp(now_ms))
    entry = Entry.of(1, Task(id=name, context_id=context, status=status, history=(message,)))
    return Letter(
        task_id=name,
        context_id=context,
        created_ms=now_ms,
        ends_ms=now_ms + round(ttl_s * 1000),
        kind=entry.kind,
        entry=Raw(entry.body),
        principal=principal,
        message_id=name,
        idempotency_key=key,
        digest="00",
    )


class Taker:
    """A host that takes each task once, as `Adoptions` does; its tasks outlive every process."""

    def __init__(self) -> None:
        # The tasks in the order in which they were taken, and how often each was delivered.
        self.taken: list[str] = []
        self.delivered: Counter[str] = Counter()
        # The statuses of the next answers; 204 after them.
        self.answers: deque[int] = deque()
        # Whether deliveries wait, and how many do.
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_gate = 0
        self.headers: list[tuple[bytes, bytes]] = [(b"content-length", b"0")]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, has_more = body + message["body"], message["more_body"]
        task_id = scope["extensions"][DELIVERY]
        delivery = deliveries.decode(body, task_id=task_id)
        self.delivered[task_id] += 1
        self.at_gate += 1
        await self.gate.wait()
        self.at_gate -= 1
        status = self.answers.popleft() if self.answers else 204
        if status == 204 and task_id not in self.taken:
            self.taken.append(delivery.task_id)
        await send({"type": "http.response.start", "status": status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b""})


class MailboxProcess:
    """A relay with a mailbox on this store."""

    def __init__(
        self, store: Store, clock: FakeClock, *, policy: AgentPolicy | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.world = RelayWorld(RelaySettings(), clock=clock)
        self.tasks = BackgroundTasks("mailbox process")
        policies = AgentPolicies(default=policy or AgentPolicy())
        self.mailboxes = Mailboxes(clock=clock, policies=policies)
        self.calls = HostCalls(self.world.relay, clock=clock, tasks=self.tasks)
        self.couriers = Couriers(self.world.relay, self.mailboxes, self.calls, clock=clock)
        self.world.relay.listen(self.couriers)
        self.due = DueWork(store=store, clock=clock, kinds=self.mailboxes.due_kinds())
        self.told: list[str] = []

    async def open(self, *, is_shared: bool = False) -> None:
        await self.mailboxes.open(self.store, is_shared=is_shared, tell=self.told.append)
        self.world.relay.start()
        self.due.start()

    async def mailbox(self) -> Mailbox:
        return await self.mailboxes.of(AGENT)

    async def put(self, *letters: Letter) -> None:
        for each in letters:
            await (await self.mailbox()).put(each)

    async def close(self) -> None:
        await self.couriers.close()
        # Of a store that has crashed, nothing more is to be waited for.
        await self.due.close(grace_s=0)
        await self.mailboxes.close()
        await self.tasks.close()
        await self.world.close()
        await settle()


@asynccontextmanager
async def process(
    store: Store, clock: FakeClock, *, policy: AgentPolicy | None = None, is_shared: bool = False
) -> AsyncIterator[MailboxProcess]:
    made = MailboxProcess(store, clock, policy=policy)
    await made.open(is_shared=is_shared)
    try:
        yield made
    finally:
        await made.close()


async def check_head(store: Store) -> tuple[int, int]:
    """How many letters and ended tasks there are; the head has to say the same."""
    mailboxes = Mailboxes(clock=FakeClock(), policies=AgentPolicies())
    await mailboxes.open(store, is_shared=False, tell=lambda _: None)
    head = (await mailboxes.of(AGENT)).head
    letters = await store.records(LETTER, scope=AGENT, limit=1000)
    ended = await store.records(ENDED, scope=AGENT, limit=1000)
    assert head.count == len(letters)
    assert head.bytes == sum(decode_letter(each.body).size for each in letters)
    assert head.ended == len(ended)
    assert head.dead == sum(bool(each.tags) for each in ended)
    assert all(int(each.key.id) < head.next for each in letters)
    oldest = min((decode_letter(each.body).created_ms for each in letters), default=0)
    assert head.oldest_ms == oldest
    return len(letters), len(ended)
