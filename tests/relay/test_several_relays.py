"""Hosts that know several relays: which one has the agents, and what a change costs: nothing."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.relay.apps import Scripted, Told
from tests.relay.relays import Relays, open_relays
from tests.relay.wire import End, Wire
from tests.relay.world import AGENT, Get, RelayWorld

from trunkline.model.principal import Principal
from trunkline.protocol.relay.reconnects import ASKED_SPREAD_S, FIRST_S, PATIENCE_S
from trunkline.relay.hosts.host import Host, HostState
from trunkline.testing import settle


@pytest.fixture
async def relays() -> AsyncIterator[Relays]:
    async with open_relays(2) as relays:
        yield relays


async def served_by(relays: Relays) -> list[bool]:
    """Whether each relay has the agent."""
    return [await has_agent(world) for world in relays.worlds]


async def has_agent(world: RelayWorld) -> bool:
    attached = world.relay.find(AGENT)
    # A request would wait for a connection that is lost.
    if attached is None or not attached.session.is_connected:
        return False
    return (await world.send(Get().http)).status == 200


def take_down(world: RelayWorld) -> None:
    world.wire.is_down = True
    world.wire.cut()


async def test_the_first_relay_is_the_only_one_in_quiet_times(relays: Relays) -> None:
    host = await relays.attach(Told())
    await relays.clock.advance(120)
    assert relays.attempts() == {"one.example": 1}
    assert await served_by(relays) == [True, False]
    status = host.status
    assert (status.state, status.relay) == (HostState.ATTACHED, "one.example")


async def test_the_next_relay_takes_the_place_of_one_that_fails(relays: Relays) -> None:
    host = await relays.attach(Told())
    take_down(relays.worlds[0])
    await relays.clock.advance(1.5)
    assert await served_by(relays) == [False, True]
    status = host.status
    assert (status.state, status.relay) == (HostState.ATTACHED, "two.example")
    assert status.links[0].trouble == "the relay is down"


async def test_a_lost_connection_alone_does_not_change_the_relay(relays: Relays) -> None:
    await relays.attach(Told())
    relays.worlds[0].wire.cut()
    await relays.clock.advance(30)
    assert relays.attempts() == {"one.example": 2}
    assert await served_by(relays) == [True, False]


async def test_a_relay_that_does_not_answer_is_not_waited_for(relays: Relays) -> None:
    """A network that drops packets lets an attempt take 15 seconds."""
    relays.silent.add("one.example")
    await relays.attach(Told())
    await relays.clock.advance(PATIENCE_S + 2)
    assert await served_by(relays) == [False, True]


async def test_a_host_goes_back_to_the_first_relay_after_a_while(relays: Relays) -> None:
    await relays.attach(Told())
    take_down(relays.worlds[0])
    await relays.clock.advance(5)
    relays.worlds[0].wire.is_down = False
    first_relay_back = None
    for second in range(120):
        await relays.clock.advance(1)
        served = await served_by(relays)
        # There is always one, and for a while there are two.
        assert any(served)
        if all(served):
            first_relay_back = first_relay_back or second
    assert first_relay_back is not None
    assert await served_by(relays) == [True, False]
    assert relays.worlds[1].wire.open_ends == []


async def test_the_way_back_drops_no_request(relays: Relays) -> None:
    app = Scripted()
    await relays.attach(app)
    take_down(relays.worlds[0])
    await relays.clock.advance(2)
    async with relays.worlds[1].http.open(Get().http) as response:
        await settle()
        relays.worlds[0].wire.is_down = False
        await relays.clock.advance(100)
        assert relays.worlds[1].relay.attached_agents == 0
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert b"".join([chunk async for chunk in response.chunks()]) == b"data: 1\n\n"
    await relays.clock.advance(3)
    assert relays.worlds[1].wire.open_ends == []
    assert relays.worlds[1].relay.sessions == 0


async def test_a_relay_that_stops_is_left_before_it_is_gone(relays: Relays) -> None:
    app = Scripted()
    one, two = relays.worlds
    host = await relays.attach(app)
    async with one.http.open(Get().http) as response:
        await settle()
        stopping = one.tasks.start(one.relay.drain(grace_s=30), name="drain")
        await settle()
        # The second one is not there yet, so the first one still has the agent.
        assert (one.relay.attached_agents, two.relay.attached_agents) == (1, 0)
        assert one.relay.find(AGENT) is not None
        await relays.clock.advance(1)
        assert (one.relay.attached_agents, two.relay.attached_agents) == (0, 1)
        assert host.status.relay == "two.example"
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert b"".join([chunk async for chunk in response.chunks()]) == b"data: 1\n\n"
    await relays.clock.advance(2)
    assert stopping.done()
    assert one.wire.open_ends == []


async def test_a_relay_that_stops_refuses_no_request_that_a_host_could_serve(
    relays: Relays,
) -> None:
    one, two = relays.worlds
    await relays.attach(Told())
    stopping = one.tasks.start(one.relay.drain(grace_s=30), name="drain")
    refused = 0
    while not stopping.done():
        answers = [(await world.send(Get().http)).status for world in relays.worlds]
        refused += 200 not in answers
        await relays.clock.advance(0.01)
    assert refused == 0
    assert (await two.send(Get().http)).status == 200


async def test_a_balancer_leads_to_another_node_at_the_same_address(relays: Relays) -> None:
    app = Scripted()
    one, two = relays.worlds
    host = await relays.attach(app, relays=1)
    async with one.http.open(Get().http) as response:
        await settle()
        relays.at["one.example"] = two
        one.tasks.spawn(one.relay.drain(grace_s=30), name="drain")
        await relays.clock.advance(1)
        assert two.relay.attached_agents == 1
        assert host.state is HostState.ATTACHED
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert b"".join([chunk async for chunk in response.chunks()]) == b"data: 1\n\n"


@pytest.mark.parametrize("asked_s", [0.0, 20.0])
async def test_a_relay_that_stops_may_say_when_it_is_back(relays: Relays, asked_s: float) -> None:
    one, _ = relays.worlds
    await relays.attach(Told(), relays=1)
    attached = one.relay.find(AGENT)
    assert attached is not None
    attached.session.drain(5, relays.clock.monotonic(), retry_after_s=asked_s)
    attached.carrier.flush()
    began = relays.clock.monotonic()
    await relays.clock.advance(60)
    spread_s = ASKED_SPREAD_S if asked_s else FIRST_S
    assert relays.dialed[1][1] - began == pytest.approx(asked_s + spread_s / 2)


async def test_a_host_is_back_soon_after_a_long_drain(relays: Relays) -> None:
    """Until the relay has restarted, each attempt is told to come back in a second."""
    one, restarted = relays.worlds
    host = await relays.attach(Scripted(), relays=1, chance=lambda: 1.0)
    async with one.http.open(Get().http):
        await settle()
        one.tasks.spawn(one.relay.drain(grace_s=11), name="drain")
        await relays.clock.advance(11)
        assert "about to stop" in host.trouble
        relays.at["one.example"] = restarted
        await relays.clock.advance(1 + ASKED_SPREAD_S)
        assert host.state is HostState.ATTACHED
        assert restarted.relay.attached_agents == 1


async def test_one_host_by_two_ways_to_the_same_relay_keeps_its_requests(relays: Relays) -> None:
    """As at two nodes of one relay, which share what is leased."""
    app = Scripted()
    one, _ = relays.worlds
    relays.at["two.example"] = one
    await relays.attach(app)
    async with one.http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        await settle()
        relays.at["one.example"] = relays.worlds[1]
        relays.worlds[1].wire.is_down = True
        one.wire.cut()
        await relays.clock.advance(2)
        assert one.relay.attached_agents == 1
        async with one.http.open(Get().http) as second:
            await settle()
            relays.at["one.example"] = one
            await relays.clock.advance(60)
            for request in app.requests:
                request.say(b"data: 2\n\n", is_last=True)
            # The first one was resumed, or told that it is lost; the second one has lost nothing.
            first = b"".join([chunk async for chunk in response.chunks()])
            assert first.startswith(b"data: 1\n\n")
            assert b"".join([chunk async for chunk in second.chunks()]) == b"data: 2\n\n"
    await relays.clock.advance(3)
    assert len(one.wire.open_ends) == 1


async def test_a_relay_that_is_lost_again_gives_the_agent_back(relays: Relays) -> None:
    """The second way is still connected, without the agent, when the first one is lost again."""
    one, other = relays.worlds
    relays.at["two.example"] = one
    relays.at["one.example"] = other
    other.wire.is_down = True
    host = await relays.attach(Told())
    await relays.clock.advance(2)
    assert host.status.relay == "two.example"
    relays.at["one.example"] = one
    while host.status.relay != "one.example":
        await relays.clock.advance(0.1)
    relays.at["one.example"] = other
    newest_end = one.wire.open_ends[-1]
    assert isinstance(newest_end, End)
    newest_end.cut()
    await relays.clock.advance(PATIENCE_S + 2)
    assert host.status.relay == "two.example"
    assert (await one.send(Get().http)).status == 200


# What a relay refuses for good.


def refuse(world: RelayWorld) -> None:
    del world.principals["host-token"]


async def test_a_relay_that_refuses_the_host_does_not_stop_the_next_one(relays: Relays) -> None:
    refuse(relays.worlds[0])
    host = await relays.attach(Told())
    await relays.clock.advance(60)
    assert await served_by(relays) == [False, True]
    assert relays.attempts() == {"one.example": 1, "two.example": 1}
    first, second = host.status.links
    assert (first.is_refused, first.code, first.trouble) == (
        True,
        4401,
        "The token is not known here",
    )
    assert second.is_attached


async def test_a_host_that_all_relays_refuse_says_why(relays: Relays) -> None:
    for world in relays.worlds:
        refuse(world)
    host = await relays.attach(Told())
    await relays.clock.advance(2)
    assert host.state is HostState.REFUSED
    for name in ("one.example", "two.example"):
        assert f"{name}: The token is not known here" in host.trouble


async def test_a_host_that_was_replaced_takes_its_agents_back_by_no_other_relay(
    relays: Relays,
) -> None:
    old = await relays.attach(Told())
    await relays.worlds[0].attach(Told(), token="other-host-token")
    await relays.clock.advance(60)
    assert old.state is HostState.REFUSED
    assert await served_by(relays) == [True, False]
    assert relays.attempts() == {"one.example": 1}


async def test_a_token_that_was_replaced_meanwhile_is_tried(relays: Relays) -> None:
    """The relay revokes the token of a live session, and its file has the next one."""
    world = relays.worlds[0]
    host = await relays.attach(Told(), relays=1)
    world.principals["newer-token"] = world.principals.pop("host-token")
    relays.token = "newer-token"
    await relays.clock.advance(65)
    assert host.state is HostState.ATTACHED
    assert await served_by(relays) == [True, False]


async def test_a_token_that_cannot_be_read_for_a_while_ends_no_session(relays: Relays) -> None:
    world = relays.worlds[0]
    ends_ms = relays.clock.now_ms() + 300_000
    host = Principal(id="host", roles=("attach:acme/*",))
    world.principals["host-token"] = replace(host, ends_ms=ends_ms)
    world.principals["newer-token"] = host
    await relays.attach(Told(), relays=1)
    relays.token = ""
    await relays.clock.advance(270)
    relays.token = "newer-token"
    await relays.clock.advance(120)
    assert await served_by(relays) == [True, False]
    assert len(relays.dialed) == 1


async def test_a_refused_host_attaches_when_it_has_another_token(relays: Relays) -> None:
    refuse(relays.worlds[0])
    host = await relays.attach(Told(), relays=1)
    await relays.clock.advance(300)
    assert host.status.links[0].is_refused
    assert len(relays.dialed) == 1
    relays.token = "other-host-token"
    await relays.clock.advance(10)
    assert host.status.state is HostState.ATTACHED


# When hosts come back.


async def test_hosts_of_a_relay_that_restarts_do_not_come_back_all_at_once() -> None:
    async with open_relays(1) as relays:
        made = await many_hosts(relays, 50)
        relays.dialed.clear()
        take_down(relays.worlds[0])
        await relays.clock.advance(20)
        assert most_within(relays, 0.05) < 20
        relays.worlds[0].wire.is_down = False
        await relays.clock.advance(62)
        assert all(host.state is not HostState.CONNECTING for host in made)


async def test_hosts_that_are_told_when_to_come_back_do_not_come_back_all_at_once() -> None:
    async with open_relays(1) as relays:
        await many_hosts(relays, 50)
        relays.dialed.clear()
        wire = relays.worlds[0].wire
        assert isinstance(wire, Wire)
        wire.retry_after_s = 30
        take_down(relays.worlds[0])
        await relays.clock.advance(62)
        times = [at for _, at in relays.dialed]
        # The first attempts; those after the pause; none between.
        assert not [at for at in times if 0.5 < at < 30]
        assert most_within(relays, 0.05) < 20


async def many_hosts(relays: Relays, count: int) -> list[Host]:
    numbers = iter(range(10**9))

    def chance() -> float:
        return next(numbers) * 0.618034 % 1.0

    return [await relays.attach(Told(), relays=1, chance=chance) for _ in range(count)]


def most_within(relays: Relays, seconds: float) -> int:
    """The largest number of attempts within this time."""
    times = sorted(at for _, at in relays.dialed)
    return max(sum(at <= other < at + seconds for other in times) for at in times)
