"""Several relays on one store: the agent is attached at one, and the call comes to another."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.relay.apps import Scripted, Told
from tests.relay.nodes import NodeWorld, RelayNodes, relay_nodes
from tests.relay.test_relay import pieces
from tests.relay.world import AGENT, Get

from trunkline.model.errors import RecordConflict, StoreUnusable
from trunkline.ports.records import Delete, Key
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.host import HostState
from trunkline.relay.nodes.hop_secret import REPLACED_AFTER_MS
from trunkline.relay.nodes.hops import HOP_SETTINGS
from trunkline.relay.nodes.lease_records import KIND
from trunkline.relay.requests import MAX_PER_HOST, RelayedRequest
from trunkline.testing import settle


@pytest.fixture
async def nodes() -> AsyncIterator[RelayNodes]:
    async with relay_nodes() as nodes:
        yield nodes


class Named:
    """Answers with its name."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        head = [(b"content-length", b"%d" % len(self._name))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self._name})


async def name_at(world: NodeWorld) -> bytes:
    answer = await world.send(Get().http)
    return answer.body if answer.status == 200 else b"%d" % answer.status


# What passes.


async def test_a_call_reaches_an_agent_at_another_node(nodes: RelayNodes) -> None:
    await nodes[0].attach(Told())
    request = Get(
        below="/v1/tasks/a%2Fb", method="POST", body=b'{"a": 1}', headers={"A2A-Version": "1.0"}
    ).http
    request.query = "historyLength=1&x=%20"
    answer = await nodes[1].send(request)
    assert answer.status == 200
    told = answer.json()
    assert told["raw_path"] == "/t/acme/a2a/helper/v1/tasks/a%2Fb"
    assert told["query"] == "historyLength=1&x=%20"
    assert told["body"] == '{"a": 1}'
    assert told["headers"]["a2a-version"] == "1.0"
    assert "alice-token" not in str(told)


async def test_a_stream_passes_the_hop_piece_by_piece(nodes: RelayNodes) -> None:
    app = Scripted()
    await nodes[0].attach(app)
    async with nodes[1].http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        assert await pieces(response, 1) == [b"data: 1\n\n"]
        app.requests[0].say(b"data: 2\n\n", is_last=True)
        assert await pieces(response, 1) == [b"data: 2\n\n"]


async def test_large_bodies_pass_the_hop_in_both_directions(nodes: RelayNodes) -> None:
    class Mirror:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            body, has_more = b"", True
            while has_more:
                message = await receive()
                body, has_more = body + message["body"], message["more_body"]
            head = [(b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": body})

    await nodes[0].attach(Mirror())
    body = bytes(range(256)) * 4096 * 5
    answer = await nodes[1].send(Get(method="POST", body=body).http)
    assert answer.body == body


async def test_a_client_that_leaves_one_node_is_gone_at_the_host_of_the_other(
    nodes: RelayNodes,
) -> None:
    app = Scripted()
    await nodes[0].attach(app)
    async with nodes[1].http.open(Get().http) as response:
        await settle()
        response.leave()
        await settle()
    assert app.requests[0].is_left
    (hop,) = nodes[1].node.hops
    assert hop.session.streams == {}
    assert nodes[0].relay.requests == 0


async def test_a_reader_that_never_reads_fills_no_node(nodes: RelayNodes) -> None:
    app = Scripted()
    await nodes[0].attach(app)
    async with nodes[1].http.open(Get().http):
        await settle()
        for _ in range(100):
            app.requests[0].say(b"x" * 10_000)
        await settle()
        # The windows of both sessions, and what the test's own client holds.
        assert app.requests[0].sent * 10_000 < 4 * HOP_SETTINGS.limits.stream_bytes
        # Others pass.
        async with nodes[1].http.open(Get().http) as other:
            await settle()
            app.requests[1].say(b"data: 1\n\n")
            assert await pieces(other, 1) == [b"data: 1\n\n"]


async def test_a_stream_survives_a_lost_hop(nodes: RelayNodes) -> None:
    app = Scripted()
    await nodes[0].attach(app)
    async with nodes[1].http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        await settle()
        nodes[0].hop_wire.cut()
        app.requests[0].say(b"data: 2\n\n")
        await nodes.clock.advance(1)
        app.requests[0].say(b"data: 3\n\n", is_last=True)
        assert b"".join(await pieces(response, 4)) == b"data: 1\n\ndata: 2\n\ndata: 3\n\n"
    assert len(app.requests) == 1


async def test_a_hop_is_closed_when_nothing_uses_it(nodes: RelayNodes) -> None:
    await nodes[0].attach(Told())
    assert (await nodes[1].send(Get().http)).status == 200
    assert nodes[1].node.hops.open_hops == 1
    await nodes.clock.advance(70)
    assert nodes[1].node.hops.open_hops == 0
    assert nodes[0].hop_wire.open_ends == []
    assert (await nodes[1].send(Get().http)).status == 200


async def test_the_requests_of_a_caller_are_counted_at_the_node_of_the_host(
    nodes: RelayNodes,
) -> None:
    app = Scripted()
    await nodes[0].attach(app)
    for number in range(MAX_PER_HOST):
        nodes[number % 2].tasks.spawn(_left_open(nodes[number % 2]), name="request")
    await settle()
    answer = await nodes[1].send(Get().http)
    assert answer.status == 429
    assert "128 requests under way at this agent" in answer.json()["error"]["message"]
    assert (await nodes[0].send(Get().http)).status == 429


async def _left_open(world: NodeWorld) -> None:
    async with world.http.open(Get().http):
        await world.clock.sleep(1e9)


async def test_what_the_node_of_the_host_answers_itself_passes_the_hop(nodes: RelayNodes) -> None:
    class AnswersHere:
        def concerns(self, agent: str) -> bool:
            return True

        async def returned(self, agent: str) -> bool:
            return False

        async def answer(self, request: RelayedRequest, *, is_away: bool) -> bool:
            told = f"{request.principal.id} {request.body.decode()}".encode()
            head = [(b"content-length", b"%d" % len(told))]
            await request.send({"type": "http.response.start", "status": 200, "headers": head})
            await request.send({"type": "http.response.body", "body": told})
            return True

    await nodes[0].attach(Named(b"the agent"))
    nodes[0].requests._at_relay = AnswersHere()
    answer = await nodes[1].send(Get(method="POST", body=b"hello").http)
    assert answer.body == b"alice hello"


# Where the agent is.


async def test_the_newest_session_wins_across_nodes(nodes: RelayNodes) -> None:
    app = Scripted(content_length=b"10")
    old = await nodes[0].attach(app)
    requests = [
        world.tasks.start(world.send(Get(method="POST").http), name="request")
        for world in nodes.all
    ]
    await settle()
    assert len(app.requests) == 2
    new = await nodes[1].attach(Named(b"new"), token="other-host-token")
    # Both were told so, and neither was sent to the new host.
    assert [(await each).status for each in requests] == [502, 502]
    assert old.state is HostState.REFUSED
    assert new.state is HostState.ATTACHED
    assert [await name_at(world) for world in nodes.all] == [b"new", b"new"]
    # It stays so when the old connection is cleaned up.
    await nodes.clock.advance(120)
    assert [await name_at(world) for world in nodes.all] == [b"new", b"new"]
    assert nodes[0].relay.sessions == 0
    assert nodes[1].relay.attached_agents == 1


async def test_epochs_rise_from_node_to_node(nodes: RelayNodes) -> None:
    found = []
    for number in (0, 1, 0):
        host = await nodes[number].attach(Told())
        lease = await nodes.lease()
        assert lease is not None
        assert lease.holder.node == nodes[number].node.leases.node
        assert host.attached_agents == {AGENT: lease.epoch}
        found.append(lease.epoch)
        await host.drain(grace_s=0)
        await nodes.clock.advance(1)
        assert await nodes.lease() is None
    assert found == sorted(set(found))


async def test_a_node_that_was_not_told_finds_out_by_itself() -> None:
    async with relay_nodes(3) as nodes:
        old = await nodes[0].attach(Named(b"old"))
        assert await name_at(nodes[2]) == b"old"
        nodes.store.loses_notice = lambda: True
        await nodes[1].attach(Named(b"new"), token="other-host-token")
        # The third node knows another way, and the first one is about to look.
        await nodes.clock.advance(2.1)
        assert old.state is HostState.REFUSED
        # The first one refuses now, and the third one looks again.
        assert [await name_at(world) for world in nodes.all] == [b"new"] * 3


async def test_two_hosts_that_attach_at_once_leave_one(nodes: RelayNodes) -> None:
    nodes.store.rounds = lambda: 3
    for number, name in enumerate((b"0", b"1")):
        token = "host-token" if number else "other-host-token"
        nodes[number].tasks.spawn(_attach(nodes[number], Named(name), token), name="attach")
    await settle()
    await nodes.clock.advance(3)
    states = {world.hosts[0].state for world in nodes.all}
    assert states == {HostState.ATTACHED, HostState.REFUSED}
    first, second = [await name_at(world) for world in nodes.all]
    assert first == second


async def _attach(world: NodeWorld, app: Any, token: str) -> None:
    await world.attach(app, token=token)


async def test_a_late_release_leaves_the_lease_of_the_successor(nodes: RelayNodes) -> None:
    """B1, across nodes."""
    nodes.store.loses_notice = lambda: True
    host = await nodes[0].attach(Named(b"old"))
    await nodes[1].attach(Named(b"new"), token="other-host-token")
    await host.drain(grace_s=0)
    await nodes.clock.advance(1)
    lease = await nodes.lease()
    assert lease is not None
    assert lease.holder.node == nodes[1].node.leases.node
    assert await name_at(nodes[0]) == b"new"


async def test_a_host_that_comes_back_at_another_node_ends_its_old_session_at_once(
    nodes: RelayNodes,
) -> None:
    app = Scripted(content_length=b"10")
    host = await nodes[0].attach(app)
    request = nodes[0].tasks.start(nodes[0].send(Get(method="POST").http), name="request")
    await settle()
    # As behind a balancer.
    host._links[0]._dial = nodes[1].wire.dial
    nodes[0].wire.cut()
    await nodes.clock.advance(1)
    assert (await request).status == 502
    assert nodes[0].relay.sessions == 0
    assert host.state is HostState.ATTACHED
    assert nodes[1].relay.attached_agents == 1


async def test_every_node_knows_who_is_attached(nodes: RelayNodes) -> None:
    await nodes[0].attach(Told(), agents={AGENT: "me/helper", "acme/other": "me/other"})
    await nodes[1].attach(Told(), agents={"acme/third": "me/third"})
    for world in nodes.all:
        assert await world.relay.attached_in("acme") == {AGENT, "acme/other", "acme/third"}
        assert await world.relay.attached_in("acm") == set()
        assert await world.relay.is_attached("acme/third")
        assert not await world.relay.is_attached("acme/fourth")
    # Only the one that has it delivers to it.
    assert nodes[1].relay.find(AGENT) is None
    await nodes[0].kill()
    assert await nodes[1].relay.is_attached(AGENT)
    request = nodes[1].tasks.start(name_at(nodes[1]), name="request")
    await nodes.clock.advance(6)
    assert await request == b"503"
    assert not await nodes[1].relay.is_attached(AGENT)
    assert await nodes[1].relay.attached_in("acme") == {"acme/third"}


async def test_a_node_that_stops_loses_no_request(nodes: RelayNodes) -> None:
    app = Scripted(content_length=b"4")
    host = await nodes[0].attach(app)
    begun = nodes[1].tasks.start(nodes[1].send(Get().http), name="request")
    await settle()
    # The host comes back to the same node for a while, as behind a balancer.
    stopping = nodes[0].tasks.start(nodes[0].relay.drain(grace_s=20), name="stop")
    await nodes.clock.advance(1)
    served = nodes[1].tasks.start(nodes[1].send(Get().http), name="request")
    await settle()
    assert len(app.requests) == 2
    await nodes.clock.advance(2)
    waiting = [world.tasks.start(world.send(Get().http), name="request") for world in nodes.all]
    await settle()
    # Those begin at its next relay.
    assert len(app.requests) == 2
    (hop,) = nodes[1].node.hops
    assert hop.session.peer_is_draining
    for request in app.requests:
        request.say(b"done", is_last=True)
    await nodes.clock.advance(1)
    assert stopping.done()
    assert [(await each).body for each in (begun, served)] == [b"done", b"done"]
    host._links[0]._dial = nodes[1].wire.dial
    await nodes.clock.advance(3.5)
    assert len(app.requests) == 4
    for request in app.requests[2:]:
        request.say(b"done", is_last=True)
    assert [(await each).body for each in waiting] == [b"done", b"done"]


# What fails.


async def test_calls_go_on_when_the_hosts_of_a_dead_node_are_elsewhere(nodes: RelayNodes) -> None:
    await nodes[0].attach(Named(b"old"))
    assert await name_at(nodes[1]) == b"old"
    await nodes[0].kill()
    request = nodes[1].tasks.start(name_at(nodes[1]), name="request")
    await nodes.clock.advance(2)
    assert not request.done()
    await nodes[1].attach(Named(b"new"))
    assert await request == b"new"


async def test_an_agent_whose_node_is_gone_counts_as_not_attached(nodes: RelayNodes) -> None:
    await nodes[0].attach(Told())
    await nodes[0].kill()
    request = nodes[1].tasks.start(name_at(nodes[1]), name="request")
    await nodes.clock.advance(6)
    assert await request == b"503"
    # Nobody waits for it any more, also later.
    assert await name_at(nodes[1]) == b"503"
    await nodes.clock.advance(200)
    assert await name_at(nodes[1]) == b"503"


async def test_a_node_that_was_started_again_knows_that_its_hosts_are_gone(
    nodes: RelayNodes,
) -> None:
    await nodes[0].attach(Named(b"old"))
    await nodes[0].kill()
    again = nodes.add(url=nodes[0].url)
    await again.open()
    assert not await again.relay.is_attached(AGENT)
    assert await again.relay.attached_in("acme") == set()
    request = again.tasks.start(name_at(again), name="request")
    await nodes.clock.advance(2)
    assert not request.done()
    await again.attach(Named(b"new"))
    assert await request == b"new"
    await again.hosts[0].drain(grace_s=0)
    await nodes.clock.advance(6)
    assert await name_at(again) == b"503"


async def test_an_empty_lease_is_forgotten_after_a_week(nodes: RelayNodes) -> None:
    host = await nodes[0].attach(Named(b"here"))
    store = nodes[1].store
    nodes.clock.jump(8 * 24 * 3600)
    assert await store.claim_due({KIND: 10}, lease_ms=1000) == ()
    await host.drain(grace_s=0)
    await nodes.clock.advance(1)
    assert await store.claim_due({KIND: 10}, lease_ms=1000) == ()
    nodes.clock.jump(8 * 24 * 3600)
    assert await store.beat() is False
    (record,) = await nodes.store.claim_due({KIND: 10}, lease_ms=1000)
    assert record.key == Key(KIND, "acme", "helper")
    # An agent that comes meanwhile keeps it.
    await nodes[0].attach(Named(b"again"))
    with pytest.raises(RecordConflict):
        await nodes.store.change(Delete(key=record.key, expected=record.version))
    assert await name_at(nodes[1]) == b"again"


async def test_a_notice_of_another_release_is_a_reason_to_look(nodes: RelayNodes) -> None:
    host = await nodes[0].attach(Named(b"old"))
    nodes.store.loses_notice = lambda: True
    await nodes[1].attach(Named(b"new"), token="other-host-token")
    assert host.attached_agents
    nodes[0].node.leases.hear("what is this")
    await settle()
    assert host.state is HostState.REFUSED


async def test_a_request_at_a_node_that_dies_ends_with_the_reason(nodes: RelayNodes) -> None:
    app = Scripted(content_length=b"10")
    await nodes[0].attach(app)
    request = nodes[1].tasks.start(nodes[1].send(Get(method="POST").http), name="request")
    await settle()
    assert len(app.requests) == 1
    await nodes[0].kill()
    await nodes.clock.advance(6)
    answer = await request
    assert answer.status == 502
    assert "may have acted on the request" in answer.json()["error"]["message"]


async def test_a_request_to_a_node_that_dies_silently_ends_soon(nodes: RelayNodes) -> None:
    app = Scripted(content_length=b"10")
    await nodes[0].attach(app)
    request = nodes[1].tasks.start(nodes[1].send(Get(method="POST").http), name="request")
    await settle()
    # Nothing passes any more, and no connection is closed.
    for end in nodes[0].hop_wire.ends:
        end.room = end.other.room = 0
    nodes[0].hop_wire.is_down = True
    await nodes.clock.advance(11)
    assert (await request).status == 502


async def test_a_node_that_is_cut_off_does_not_serve_what_it_may_have_lost(
    nodes: RelayNodes,
) -> None:
    old = await nodes[0].attach(Named(b"old"))
    nodes[0].store.is_cut_off = True
    await nodes.clock.advance(5)
    await nodes[1].attach(Named(b"new"), token="other-host-token")
    # The old host is still attached, and gets nothing.
    assert old.attached_agents
    assert await name_at(nodes[0]) == b"503"
    assert await name_at(nodes[1]) == b"new"
    nodes[0].store.is_cut_off = False
    await nodes.clock.advance(3)
    assert old.state is HostState.REFUSED
    assert await name_at(nodes[0]) == b"new"


async def test_a_node_that_lost_nothing_serves_on_when_it_is_back(nodes: RelayNodes) -> None:
    host = await nodes[0].attach(Named(b"old"))
    for world in nodes.all:
        world.store.is_cut_off = True
    await nodes.clock.advance(20)
    assert [await name_at(world) for world in nodes.all] == [b"503", b"503"]
    for world in nodes.all:
        world.store.is_cut_off = False
    await nodes.clock.advance(3)
    assert host.state is HostState.ATTACHED
    assert [await name_at(world) for world in nodes.all] == [b"old", b"old"]


async def test_hosts_leave_a_node_that_is_cut_off_for_long(nodes: RelayNodes) -> None:
    app = Scripted()
    host = await nodes[0].attach(app)
    async with nodes[0].http.open(Get().http) as response:
        await settle()
        nodes[0].store.is_cut_off = True
        await nodes.clock.advance(40)
        # What is under way goes on.
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert await pieces(response, 1) == [b"data: 1\n\n"]
    # It gets no host any more.
    with pytest.raises(DialFailed, match="cannot use its store"):
        await nodes[0].wire.dial("", "other-host-token")
    host._links[0]._dial = nodes[1].wire.dial
    await nodes.clock.advance(60)
    assert nodes[0].relay.sessions == 0
    assert nodes[1].relay.attached_agents == 1


async def test_a_host_that_attaches_while_the_store_is_away_tries_again(nodes: RelayNodes) -> None:
    nodes[0].store.is_cut_off = True
    host = await nodes[0].attach(Named(b"here"))
    await nodes.clock.advance(3)
    assert host.attached_agents == {}
    nodes[0].store.is_cut_off = False
    await nodes.clock.advance(3)
    assert await name_at(nodes[1]) == b"here"


async def test_a_lease_whose_answer_was_lost_is_given_up(nodes: RelayNodes) -> None:
    change = nodes[0].store.change

    async def lose_answer(*changes: Any) -> None:
        await change(*changes)
        raise StoreUnusable("the answer is lost")

    nodes[0].store.change = lose_answer  # type: ignore[method-assign]
    host = await nodes[0].attach(Named(b"here"))
    assert await nodes.lease() is not None
    await host.close()
    nodes[0].wire.cut()
    nodes[0].store.change = change  # type: ignore[method-assign]
    await nodes.clock.advance(40)
    assert await nodes.lease() is None


# Who connects.


async def test_only_nodes_of_the_store_connect(nodes: RelayNodes) -> None:
    await nodes[0].attach(Told())
    assert (await nodes[1].send(Get().http)).status == 200
    for credential in (
        "",
        "Bearer host-token",
        "Bearer alice-token",
        "Relay-Node",
        "Relay-Node a.b",
        f"Relay-Node a.b.{'0' * 64}",
        f"Relay-Node a.b.\u00e4{'0' * 63}",
        f"Relay-Node {'a' * 1000}.b.c",
    ):
        with pytest.raises(DialFailed, match="Only relay nodes"):
            await nodes[0].hop_wire.connect(credential)


async def test_a_credential_is_for_one_node(nodes: RelayNodes) -> None:
    credentials = []

    async def keep(url: str, credential: str) -> Any:
        credentials.append(credential)
        return await nodes.at(url).hop_wire.connect(credential)

    nodes[1].node.hops._dial = keep
    await nodes[0].attach(Told())
    assert (await nodes[1].send(Get().http)).status == 200
    third = nodes.add()
    await third.open()
    with pytest.raises(DialFailed, match="Only relay nodes"):
        await third.hop_wire.connect(credentials[0])


async def test_a_node_sends_nothing_to_who_does_not_know_the_secret(nodes: RelayNodes) -> None:
    """Another program may listen at the address of a node that is gone."""
    await nodes[0].attach(Told())
    impostor = nodes[0].node._sockets._carrier

    def with_another_key(credential: Any, secret: bytes, hello: Any) -> Any:
        return impostor(credential, b"another secret", hello)

    nodes[0].node._sockets._carrier = with_another_key  # type: ignore[method-assign]
    request = nodes[1].tasks.start(name_at(nodes[1]), name="request")
    await nodes.clock.advance(6)
    assert await request == b"503"
    assert nodes[0].relay.requests == 0


async def test_the_secret_is_replaced_every_day(nodes: RelayNodes) -> None:
    await nodes[0].attach(Named(b"here"))
    secrets = set()
    for _ in range(4):
        assert await name_at(nodes[1]) == b"here"
        secrets.add(await nodes[1].node.hops._secret.current())
        nodes.clock.jump(REPLACED_AFTER_MS / 1000)
        await nodes.clock.advance(90)
    assert len(secrets) == 4
    assert not any(secret.hex() in repr(nodes[0].node.__dict__) for secret in secrets)
