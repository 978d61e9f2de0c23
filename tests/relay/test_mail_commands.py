"""What operators do with dead letters."""

from collections.abc import AsyncIterator

import pytest
from tests.relay.mailboxes import MailboxProcess, Taker, check_head, letter, process
from tests.relay.world import AGENT

from trunkline.model.errors import RouteNotFound, TooManyRequests
from trunkline.relay.mailbox.commands import MailCommands, NameAgent, NameLetter
from trunkline.relay.policies import AgentPolicies, AgentPolicy
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, SequentialIds


@pytest.fixture
async def relay() -> AsyncIterator[MailboxProcess]:
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.open()
    async with process(store, clock, policy=AgentPolicy(mailbox_messages=4)) as relay:
        yield relay


@pytest.fixture
def commands(relay: MailboxProcess) -> MailCommands:
    return MailCommands(
        mailboxes=relay.mailboxes,
        policies=AgentPolicies(),
        clock=relay.clock,
        ids=SequentialIds("new"),
    )


async def bury(relay: MailboxProcess, *names: str) -> None:
    taker = Taker()
    taker.answers += [409] * len(names)
    for name in names:
        await relay.put(letter(name, context="c", now_ms=relay.clock.now_ms(), principal="bob"))
    host = await relay.world.attach(taker)
    await relay.clock.advance(2)
    await host.close()
    relay.world.wire.cut()
    await relay.clock.advance(40)
    assert taker.taken == []


async def test_operators_see_what_waits_and_what_is_dead(
    relay: MailboxProcess, commands: MailCommands
) -> None:
    assert await commands.list() == {"items": []}
    await bury(relay, "1")
    await relay.put(letter("2", now_ms=relay.clock.now_ms()))
    ((view,),) = (await commands.list()).values()
    assert (view.agent, view.waiting, view.dead) == (AGENT, 1, 1)
    assert view.oldest_at is not None
    ((dead,),) = (await commands.dead(NameAgent(agent=AGENT))).values()
    assert (dead.task, dead.context, dead.sender, dead.attempts) == ("1", "c", "bob", 1)
    assert "409" in dead.reason
    assert (await commands.dead(NameAgent(agent="acme/other")))["items"] == []


async def test_a_dead_letter_is_sent_again_as_a_new_task(
    relay: MailboxProcess, commands: MailCommands
) -> None:
    await bury(relay, "1")
    again = await commands.retry(NameLetter(agent=AGENT, task="1"))
    assert again == {"task": "new-000001", "insteadOf": "1"}
    mailbox = await relay.mailbox()
    (waiting,) = mailbox.waiting.values()
    assert (waiting.context_id, waiting.owner.principal) == ("c", "bob")
    assert await check_head(relay.store) == (1, 0)
    taker = Taker()
    await relay.world.attach(taker)
    await relay.clock.advance(2)
    assert taker.taken == ["new-000001"]
    with pytest.raises(RouteNotFound):
        await commands.retry(NameLetter(agent=AGENT, task="1"))


async def test_a_full_mailbox_takes_no_dead_letter(
    relay: MailboxProcess, commands: MailCommands
) -> None:
    await bury(relay, "1")
    for name, principal in (("2", "alice"), ("3", "alice"), ("4", "carol"), ("5", "carol")):
        await relay.put(letter(name, now_ms=relay.clock.now_ms(), principal=principal))
    with pytest.raises(TooManyRequests):
        await commands.retry(NameLetter(agent=AGENT, task="1"))
    assert await check_head(relay.store) == (4, 1)


async def test_a_dead_letter_is_discarded(relay: MailboxProcess, commands: MailCommands) -> None:
    await bury(relay, "1", "2")
    gone = await commands.discard(NameLetter(agent=AGENT, task="1"))
    assert gone.task == "1"
    assert await check_head(relay.store) == (0, 1)
    with pytest.raises(RouteNotFound):
        await commands.discard(NameLetter(agent=AGENT, task="1"))


async def test_a_canceled_task_is_no_dead_letter(
    relay: MailboxProcess, commands: MailCommands
) -> None:
    await relay.put(letter("1", now_ms=relay.clock.now_ms()))
    mailbox = await relay.mailbox()
    await mailbox.cancel(mailbox.waiting["1"])
    assert (await commands.dead(NameAgent(agent=AGENT)))["items"] == []
    assert await commands.list() == {"items": []}
    with pytest.raises(RouteNotFound):
        await commands.discard(NameLetter(agent=AGENT, task="1"))
