"""Deliveries to a host that takes, refuses and loses them."""

from collections.abc import AsyncIterator

import pytest
from tests.relay.mailboxes import MailboxProcess, Taker, check_head, letter, process
from tests.relay.world import AGENT

from trunkline.model.errors import StoreUnusable
from trunkline.model.values import TaskState
from trunkline.protocol.relay.frames import Limits
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.mailbox.couriers import MAX_LOST, MAX_SENT
from trunkline.relay.mailbox.records import Letter, Owner, decode_task
from trunkline.stores.memory import MemoryStore
from trunkline.testing import FakeClock, settle

ALICE = Owner("alice", "")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(clock: FakeClock) -> MemoryStore:
    store = MemoryStore(clock)
    await store.open()
    return store


@pytest.fixture
async def relay(store: MemoryStore, clock: FakeClock) -> AsyncIterator[MailboxProcess]:
    async with process(store, clock) as relay:
        yield relay


def new(relay: MailboxProcess, name: str, **fields: object) -> Letter:
    return letter(name, now_ms=relay.clock.now_ms(), **fields)  # type: ignore[arg-type]


async def test_lanes_go_side_by_side_and_each_in_order(relay: MailboxProcess) -> None:
    for number in range(20):
        await relay.put(new(relay, f"{number}a", context=f"c-{number}"))
        await relay.put(new(relay, f"{number}b", context=f"c-{number}"))
    taker = Taker()
    taker.gate.clear()
    await relay.world.attach(taker)
    assert taker.at_gate == MAX_SENT
    assert taker.taken == []
    taker.gate.set()
    await settle()
    await settle()
    await relay.clock.advance(1)
    assert len(taker.taken) == 40
    for number in range(20):
        own = [f"{number}a", f"{number}b"]
        assert [name for name in taker.taken if name in own] == own
    assert await check_head(relay.store) == (0, 0)
    assert relay.mailboxes.delivered == 40


async def test_a_letter_arrives_as_its_caller(relay: MailboxProcess) -> None:
    class Asked(Taker):
        async def __call__(self, scope: object, receive: object, send: object) -> None:
            assert isinstance(scope, dict)
            told = callers.known(dict(scope["headers"]))
            names.append("" if told is None else told.id)
            await super().__call__(scope, receive, send)

    names: list[str] = []
    callers = RelayedCallers()
    await relay.put(new(relay, "a", principal="tenant:acme:bob"))
    await relay.world.attach(Asked(), callers=callers)
    assert names == ["relay:relay.example:tenant:acme:bob"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_host_that_cannot_take_a_letter_gets_it_later(
    relay: MailboxProcess, status: int
) -> None:
    taker = Taker()
    taker.answers += [status, status]
    taker.headers.append((b"retry-after", b"3"))
    await relay.put(new(relay, "1", context="c"), new(relay, "2", context="c"))
    await relay.world.attach(taker)
    assert taker.delivered == {"1": 1}
    # It has not begun, so it is known to wait, and may be canceled.
    mailbox = await relay.mailbox()
    assert not mailbox.waiting["1"].is_unsure
    await relay.clock.advance(2)
    assert taker.delivered == {"1": 1}
    await relay.clock.advance(2)
    assert taker.delivered == {"1": 2}
    await relay.clock.advance(4)
    assert taker.taken == ["1", "2"]
    assert mailbox.waiting == {}


async def test_a_lane_that_waits_stops_no_other(relay: MailboxProcess) -> None:
    taker = Taker()
    taker.answers += [503] * MAX_SENT
    for number in range(MAX_SENT + 2):
        await relay.put(new(relay, str(number)))
    await relay.world.attach(taker)
    await relay.clock.advance(0.5)
    assert taker.taken == [str(MAX_SENT), str(MAX_SENT + 1)]
    await relay.clock.advance(3)
    assert len(taker.taken) == MAX_SENT + 2


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413])
async def test_a_letter_that_is_refused_for_good_is_dead(
    relay: MailboxProcess, status: int
) -> None:
    taker = Taker()
    taker.answers += [status]
    refused = new(relay, "1", context="c")
    await relay.put(refused, new(relay, "2", context="c"))
    await relay.world.attach(taker)
    await relay.clock.advance(1)
    assert taker.taken == ["2"]
    end = await (await relay.mailbox()).end("1")
    assert end is not None
    assert str(status) in end.reason
    assert decode_task(end.task).status.state is TaskState.FAILED
    assert end.letter is not None
    assert end.letter.task == refused.task
    assert await check_head(relay.store) == (0, 1)


async def test_a_letter_whose_host_is_lost_stays(relay: MailboxProcess) -> None:
    taker = Taker()
    taker.gate.clear()
    await relay.put(new(relay, "1", context="c"), new(relay, "2", context="c"))
    host = await relay.world.attach(taker)
    assert taker.delivered == {"1": 1}
    mailbox = await relay.mailbox()
    assert mailbox.waiting["1"].is_sent
    await host.close()
    relay.world.wire.cut()
    await relay.clock.advance(40)
    # The host may have it: nobody can say that it waits.
    assert (mailbox.waiting["1"].is_sent, mailbox.waiting["1"].is_unsure) == (False, True)
    taker.gate.set()
    await relay.world.attach(taker)
    await relay.clock.advance(3)
    assert taker.taken == ["1", "2"]
    assert taker.delivered == {"1": 2, "2": 1}


async def test_a_letter_that_loses_every_host_is_dead(relay: MailboxProcess) -> None:
    class Dies(Taker):
        async def __call__(self, scope: object, receive: object, send: object) -> None:
            self.delivered["1"] += 1

    await relay.put(new(relay, "1"))
    taker = Dies()
    await relay.world.attach(taker)
    await relay.clock.advance(100)
    assert taker.delivered == {"1": MAX_LOST}
    end = await (await relay.mailbox()).end("1")
    assert end is not None
    assert "was lost 20 times" in end.reason


async def test_a_host_that_never_answers_is_asked_again(relay: MailboxProcess) -> None:
    taker = Taker()
    taker.gate.clear()
    await relay.put(new(relay, "1"))
    await relay.world.attach(taker)
    await relay.clock.advance(55)
    assert taker.delivered == {"1": 1}
    await relay.clock.advance(10)
    assert taker.delivered == {"1": 2}
    taker.gate.set()
    await settle()
    assert taker.taken == ["1"]
    assert (await relay.mailbox()).waiting == {}


async def test_a_host_without_streams_left_gets_the_letter_later(relay: MailboxProcess) -> None:
    taker = Taker()
    taker.gate.clear()
    await relay.put(*[new(relay, str(number)) for number in range(3)])
    few = SessionSettings(limits=Limits(max_streams=1))
    await relay.world.attach(taker, session=few)
    await relay.clock.advance(1)
    assert taker.at_gate == 1
    taker.gate.set()
    await relay.clock.advance(10)
    assert sorted(taker.taken) == ["0", "1", "2"]


async def test_a_large_letter_arrives(relay: MailboxProcess) -> None:
    await relay.put(new(relay, "1", text="ö" * 1_000_000))
    taker = Taker()
    await relay.world.attach(taker)
    await relay.clock.advance(1)
    assert taker.taken == ["1"]


async def test_what_comes_while_the_agent_is_here_is_delivered_at_once(
    relay: MailboxProcess,
) -> None:
    taker = Taker()
    await relay.world.attach(taker)
    await relay.put(new(relay, "1"))
    await settle()
    assert taker.taken == ["1"]


async def test_a_held_letter_stays(relay: MailboxProcess) -> None:
    await relay.put(new(relay, "1"), new(relay, "2", principal="bob"))
    taker = Taker()
    mailbox = await relay.mailbox()
    async with mailbox.hold(ALICE):
        await relay.world.attach(taker)
        await relay.clock.advance(5)
        assert taker.taken == ["2"]
    await relay.clock.advance(2)
    assert taker.taken == ["2", "1"]


async def test_letters_are_not_held_on_their_way(relay: MailboxProcess) -> None:
    await relay.put(new(relay, "1"))
    taker = Taker()
    taker.gate.clear()
    await relay.world.attach(taker)
    mailbox = await relay.mailbox()

    async def hold() -> list[str]:
        async with mailbox.hold(ALICE):
            return [*mailbox.waiting]

    holding = relay.tasks.start(hold(), name="hold")
    await relay.clock.advance(5)
    assert not holding.done()
    taker.gate.set()
    assert await holding == []


async def test_a_store_that_fails_loses_nothing(
    relay: MailboxProcess, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = Taker()
    mailbox = await relay.mailbox()
    await relay.put(new(relay, "1", context="c"), new(relay, "2", context="c"))
    working = store.change

    async def broken(*changes: object) -> None:
        raise StoreUnusable("no space left")

    monkeypatch.setattr(store, "change", broken)
    with pytest.raises(StoreUnusable):
        await relay.put(new(relay, "3"))
    with pytest.raises(StoreUnusable):
        await mailbox.cancel(mailbox.waiting["2"])
    await relay.world.attach(taker)
    await relay.clock.advance(3)
    # It cannot be noted that a letter is sent, so none is.
    assert taker.delivered == {}
    monkeypatch.setattr(store, "change", working)
    await relay.clock.advance(3)
    assert taker.taken == ["1", "2"]
    assert await check_head(store) == (0, 0)


async def test_a_letter_that_cannot_be_removed_is_not_said_to_wait(
    relay: MailboxProcess, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = Taker()
    taker.gate.clear()
    await relay.put(new(relay, "1"))
    await relay.world.attach(taker)
    working = store.change

    async def broken(*changes: object) -> None:
        raise StoreUnusable("no space left")

    monkeypatch.setattr(store, "change", broken)
    taker.gate.set()
    await relay.clock.advance(5)
    mailbox = await relay.mailbox()
    assert mailbox.waiting["1"].is_unsure
    monkeypatch.setattr(store, "change", working)
    await relay.clock.advance(10)
    assert mailbox.waiting == {}
    assert taker.delivered == {"1": 1}


async def test_an_agent_without_letters_costs_the_store_nothing(
    relay: MailboxProcess, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(*args: object, **options: object) -> None:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(store, "record", asked)
    monkeypatch.setattr(store, "records", asked)
    await relay.world.attach(Taker())
    await settle()
    assert not relay.mailboxes.concerns(AGENT)
    assert relay.couriers._couriers == {}


# Two nodes on one store.


async def test_another_node_may_put_a_letter(store: MemoryStore, clock: FakeClock) -> None:
    async with (
        process(store, clock, is_shared=True) as holder,
        process(store, clock, is_shared=True) as other,
    ):
        taker = Taker()
        await holder.world.attach(taker)
        await other.put(new(other, "1"))
        assert other.told == [AGENT]
        # A notice is quick, and a node looks all the same.
        holder.mailboxes.hear(AGENT)
        await settle()
        assert taker.taken == ["1"]
        await other.put(new(other, "2"))
        await clock.advance(3)
        assert taker.taken == ["1", "2"]
        assert not other.mailboxes.waits(AGENT)
        assert (await other.mailbox()).head.next == 3
    assert await check_head(store) == (0, 0)


async def test_two_nodes_give_each_letter_a_number_of_its_own(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with (
        process(store, clock, is_shared=True) as one,
        process(store, clock, is_shared=True) as two,
    ):
        tasks = [
            each.tasks.start(each.put(new(each, f"{name}{number}")), name="put")
            for number in range(20)
            for name, each in (("a", one), ("b", two))
        ]
        for task in tasks:
            await task
        mailbox = await one.mailbox()
        numbers = [waiting.number for waiting in mailbox.waiting.values()]
        assert numbers == [*range(1, 41)]
        for name in ("a", "b"):
            own = [each for each in mailbox.waiting if each.startswith(name)]
            assert own == [f"{name}{number}" for number in range(20)]
    assert await check_head(store) == (40, 0)


async def test_a_letter_is_canceled_at_one_node_or_sent_by_the_other(
    store: MemoryStore, clock: FakeClock
) -> None:
    async with (
        process(store, clock, is_shared=True) as holder,
        process(store, clock, is_shared=True) as other,
    ):
        await other.put(new(other, "1"), new(other, "2"))
        taker = Taker()
        taker.gate.clear()
        at_other = await other.mailbox()
        known = at_other.waiting["1"]
        await holder.world.attach(taker)
        await clock.advance(3)
        assert taker.delivered == {"1": 1, "2": 1}
        # The other node does not know that it was sent.
        assert await at_other.cancel(known) is None
        taker.gate.set()
        await clock.advance(3)
        assert sorted(taker.taken) == ["1", "2"]
    assert await check_head(store) == (0, 0)
