"""Requests through a relay to a host in the same process."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import tests.relay.world
from tests.bindings.asgi import Response
from tests.relay.apps import Scripted, Told
from tests.relay.world import AGENT, Get, RelayWorld, newest, open_relay

from trunkline.model.errors import Unavailable
from trunkline.model.principal import Grant, Principal
from trunkline.ports.authenticator import Headers
from trunkline.ports.websocket import WebSocketClosed
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.close_codes import NOT_AUTHENTICATED
from trunkline.protocol.relay.events import Cancelled, Piece
from trunkline.protocol.relay.frames import Hello, Limits, encode
from trunkline.protocol.relay.session import SessionSettings
from trunkline.relay.hosts.host import HostState
from trunkline.relay.hosts.relayed_callers import RelayedCallers, principal_of
from trunkline.relay.policies import AgentPolicies, AgentPolicy
from trunkline.relay.relay import RelaySettings
from trunkline.testing import settle


@pytest.fixture(autouse=True, params=["websocket", "long-poll"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.relay.world, "usual_transport", request.param)


@pytest.fixture
async def world() -> AsyncIterator[RelayWorld]:
    async with open_relay() as world:
        yield world


async def pieces(response: Response, count: int) -> list[bytes]:
    """The next pieces of a body, of which some were not empty."""
    found = []
    async for chunk in response.chunks():
        if chunk:
            found.append(chunk)
        if len(found) == count:
            break
    return found


async def test_a_request_reaches_the_host_as_it_is(world: RelayWorld) -> None:
    await world.attach(Told())
    request = Get(
        below="/v1/tasks/a%2Fb", method="POST", body=b'{"a": 1}', headers={"A2A-Version": "1.0"}
    ).http
    request.query = "historyLength=1&x=%20"
    answer = await world.send(request)
    assert answer.status == 200
    told = answer.json()
    assert told["method"] == "POST"
    assert told["raw_path"] == "/t/acme/a2a/helper/v1/tasks/a%2Fb"
    assert told["path"] == "/t/acme/a2a/helper/v1/tasks/a/b"
    assert told["query"] == "historyLength=1&x=%20"
    assert told["body"] == '{"a": 1}'
    assert told["headers"]["a2a-version"] == "1.0"
    # The token of the client stays at the relay.
    assert "alice-token" not in str(told)


async def test_a_large_body_passes_in_both_directions(world: RelayWorld) -> None:
    class Mirror(Told):
        async def __call__(self, scope: object, receive: object, send: object) -> None:
            body, has_more = b"", True
            while has_more:
                message = await receive()  # type: ignore[operator]
                body, has_more = body + message["body"], message["more_body"]
            head = [(b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": head})  # type: ignore[operator]
            await send({"type": "http.response.body", "body": body})  # type: ignore[operator]

    await world.attach(Mirror())
    body = bytes(range(256)) * 4096 * 5
    answer = await world.send(Get(method="POST", body=[body[:1000], body[1000:], b""]).http)
    assert answer.body == body


async def test_events_pass_one_by_one(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        assert await pieces(response, 1) == [b"data: 1\n\n"]
        assert response.headers["content-type"] == "text/event-stream"
        app.requests[0].say(b"data: 2\n\n")
        app.requests[0].say(b"", is_last=True)
        assert await pieces(response, 2) == [b"data: 2\n\n"]


async def test_a_client_that_leaves_is_gone_at_the_host(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        response.leave()
        await settle()
    assert app.requests[0].is_left
    assert newest(world.hosts[0]).session.streams == {}


async def test_a_stream_survives_a_lost_connection(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        await settle()
        world.wire.cut()
        app.requests[0].say(b"data: 2\n\n")
        await settle()
        assert world.wire.open_ends == []
        await world.clock.advance(1)
        app.requests[0].say(b"data: 3\n\n", is_last=True)
        assert b"".join(await pieces(response, 4)) == b"data: 1\n\ndata: 2\n\ndata: 3\n\n"
    assert world.hosts[0].state is HostState.ATTACHED
    assert len(app.requests) == 1


async def test_a_request_waits_for_a_connection_that_was_just_lost(world: RelayWorld) -> None:
    await world.attach(Told())
    world.wire.cut()
    await settle()
    answer = world.tasks.start(world.send(Get().http), name="request")
    await world.clock.advance(1)
    assert (await answer).status == 200


async def test_a_request_that_waits_for_one_session_goes_to_its_successor(
    world: RelayWorld,
) -> None:
    """The host was killed, and the relay still waits for its session."""
    await world.attach(Told(), agents={AGENT: "me/helper", "acme/other": "me/other"})
    world.wire.is_down = True
    world.wire.cut()
    await settle()
    request = world.tasks.start(world.send(Get().http), name="request")
    await world.clock.advance(1)
    world.wire.is_down = False
    await world.attach(Told(), token="other-host-token")
    await world.clock.advance(1)
    assert (await request).status == 200


async def test_it_does_not_wait_for_long(world: RelayWorld) -> None:
    await world.attach(Told())
    world.wire.is_down = True
    world.wire.cut()
    await settle()
    request = world.tasks.start(world.send(Get().http), name="request")
    await world.clock.advance(6)
    answer = await request
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"


async def test_it_waits_longer_where_the_agent_has_a_longer_wait() -> None:
    policies = AgentPolicies(exceptions={AGENT: AgentPolicy(wait_s=30)})
    async with open_relay(policies=policies) as world:
        await world.attach(Told())
        world.wire.is_down = True
        world.wire.cut()
        await settle()
        request = world.tasks.start(world.send(Get().http), name="request")
        await world.clock.advance(29)
        assert not request.done()
        await world.clock.advance(2)
        assert (await request).status == 503


async def test_a_stream_whose_host_is_lost_ends_with_the_reason(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get(below="/message:stream").http) as response:
        await settle()
        app.requests[0].say(b"data: 1\n\n")
        assert await pieces(response, 1) == [b"data: 1\n\n"]
        world.wire.is_down = True
        world.wire.cut()
        await world.clock.advance(31)
        (last,) = await pieces(response, 1)
        assert last.startswith(b"event: error\ndata: ")
        assert b"AGENT_LOST" in last
        assert [chunk async for chunk in response.chunks()] == []


async def test_a_stream_that_is_lost_within_an_event_ends_with_the_reason(
    world: RelayWorld,
) -> None:
    """The reason was read as a part of the half event before it."""
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get(below="/message:stream").http) as response:
        await settle()
        app.requests[0].say(b"id: 1\ndata: 1\n\nid: 2\ndata: ha")
        assert await pieces(response, 1) == [b"id: 1\ndata: 1\n\n"]
        world.wire.is_down = True
        world.wire.cut()
        await world.clock.advance(31)
        (last,) = await pieces(response, 1)
        assert last.startswith(b"event: error\ndata: ")
        assert b"AGENT_LOST" in last


async def test_a_stream_that_is_lost_within_a_large_event_breaks_off(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get(below="/message:stream").http) as response:
        await settle()
        app.requests[0].say(b"data: " + b"x" * 100_000)
        assert len((await pieces(response, 1))[0]) > 65_536
        world.wire.is_down = True
        world.wire.cut()
        await world.clock.advance(31)
        rest = b"".join([chunk async for chunk in response.chunks()])
        assert rest.strip(b"x") == b""


async def test_an_event_that_comes_in_pieces_passes_as_one(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get(below="/message:stream").http) as response:
        await settle()
        app.requests[0].say(b"data: a")
        app.requests[0].say(b"b\n\ndata: end", is_last=True)
        assert [chunk async for chunk in response.chunks() if chunk] == [b"data: ab\n\ndata: end"]


async def test_a_target_that_is_not_encoded_comes_encoded(world: RelayWorld) -> None:
    await world.attach(Told())
    http = Get().http
    http.path, http.query = "/t/acme/a2a/helper/tasks/\u00e4", b"a=\xff&b=%20?"
    told = (await world.send(http)).json()
    assert told["path"] == "/t/acme/a2a/helper/tasks/\u00e4"
    assert told["raw_path"] == "/t/acme/a2a/helper/tasks/%C3%A4"
    assert told["query"] == "a=%FF&b=%20?"


async def test_a_request_whose_host_is_lost_is_answered(world: RelayWorld) -> None:
    """B6: the caller waited for the whole timeout."""
    app = Scripted(content_length=b"10")
    await world.attach(app)
    request = world.tasks.start(world.send(Get(method="POST").http), name="request")
    await settle()
    assert len(app.requests) == 1
    world.wire.is_down = True
    world.wire.cut()
    await world.clock.advance(31)
    answer = await request
    assert answer.status == 502
    assert answer.json()["jsonrpc"] == "2.0"
    assert "may have acted on the request" in answer.json()["error"]["message"]


async def test_a_newer_host_takes_the_agent_at_once(world: RelayWorld) -> None:
    """B1 and B6: the newest registration wins, and requests to the old one are told so."""
    app = Scripted(content_length=b"10")
    old = await world.attach(app)
    request = world.tasks.start(world.send(Get(method="POST").http), name="request")
    await settle()
    new = await world.attach(Told(), token="other-host-token")
    assert (await request).status == 502
    assert app.requests[0].is_left
    assert old.state is HostState.REFUSED
    assert new.state is HostState.ATTACHED
    assert (await world.send(Get().http)).status == 200
    # It stays so when the old connection is cleaned up.
    await world.clock.advance(120)
    assert (await world.send(Get().http)).status == 200
    assert world.relay.sessions == 1


async def test_a_host_that_has_restarted_takes_its_place(world: RelayWorld) -> None:
    old = await world.attach(Scripted())
    await old.close()
    await world.attach(Told())
    assert (await world.send(Get().http)).status == 200
    assert world.relay.sessions == 1


async def test_a_host_that_stops_ends_what_it_has_begun(world: RelayWorld) -> None:
    app = Scripted()
    host = await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        draining = world.tasks.start(host.drain(grace_s=30), name="drain")
        await settle()
        assert (await world.send(Get().http)).status == 503
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert await pieces(response, 1) == [b"data: 1\n\n"]
        await world.clock.advance(5)
        await draining
    assert world.relay.sessions == 0
    assert world.wire.open_ends == []


async def test_a_relay_that_stops_waits_for_requests(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http) as response:
        await settle()
        draining = world.tasks.start(world.relay.drain(grace_s=10), name="drain")
        await world.clock.advance(5)
        app.requests[0].say(b"data: 1\n\n", is_last=True)
        assert await pieces(response, 1) == [b"data: 1\n\n"]
        await world.clock.advance(1)
        assert draining.done()


async def test_a_relay_that_stops_still_has_the_agents_of_hosts_without_another(
    world: RelayWorld,
) -> None:
    await world.attach(Told())
    draining = world.tasks.start(world.relay.drain(grace_s=10), name="drain")
    await world.clock.advance(1)
    assert (await world.send(Get().http)).status == 200
    assert not draining.done()
    await world.clock.advance(2)
    assert draining.done()


async def test_a_relay_that_stops_takes_no_more_hosts(world: RelayWorld) -> None:
    world.tasks.spawn(world.relay.drain(grace_s=10), name="drain")
    await settle()
    host = await world.attach(Told())
    assert "503" in host.trouble or "stop" in host.trouble
    assert world.relay.sessions == 0


async def test_a_reader_that_never_reads_stops_its_host_alone(world: RelayWorld) -> None:
    app = Scripted()
    await world.attach(app)
    slow, fast = Get().http, Get().http
    held = 0

    async def never(message: object) -> None:
        nonlocal held
        held += 1
        if held > 1:
            await world.clock.sleep(1e9)

    async def silent() -> dict[str, object]:
        if silent_calls.pop():
            return {"type": "http.request", "body": b"", "more_body": False}
        await world.clock.sleep(1e9)
        raise AssertionError

    silent_calls = [False] * 5 + [True]
    stuck = world.tasks.start(world.requests(slow.scope(), silent, never), name="stuck")
    await settle()
    for _ in range(100):
        app.requests[0].say(b"data: " + b"x" * 10_000 + b"\n\n")
    await settle()
    # The window of the stream, and the piece that the reader holds.
    assert app.requests[0].sent <= 7
    async with world.http.open(fast) as response:
        await settle()
        for _ in range(100):
            app.requests[1].say(b"y" * 10_000)
        app.requests[1].say(b"", is_last=True)
        body = b"".join([chunk async for chunk in response.chunks()])
    assert body == b"y" * 1_000_000
    stuck.cancel()


# Who may do what.


@pytest.mark.parametrize(
    ("token", "status"),
    [("alice-token", 200), ("bob-token", 403), ("host-token", 403), ("nonsense", 401), ("", 401)],
)
async def test_only_those_with_a_grant_call_an_agent(
    world: RelayWorld, token: str, status: int
) -> None:
    await world.attach(Told())
    there = await world.send(Get(token=token).http)
    assert there.status == status


@pytest.mark.parametrize("token", ["bob-token", "host-token", "nonsense", ""])
async def test_those_without_a_grant_do_not_learn_who_is_there(
    world: RelayWorld, token: str
) -> None:
    await world.attach(Told())
    there = await world.send(Get(token=token).http)
    away = await world.send(Get(token=token, agent="acme/absent").http)
    assert there.status == away.status
    assert there.body.replace(b"helper", b"absent") == away.body


async def test_an_agent_that_is_not_attached_is_not_available(world: RelayWorld) -> None:
    answer = await world.send(Get(below="/tasks").http)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.json()["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize("path", ["/t", "/t/acme", "/t/acme/a2a", "/t/acme/x/helper"])
async def test_other_paths_are_nothing(world: RelayWorld, path: str) -> None:
    request = Get().http
    request.path = path
    assert (await world.send(request)).status == 404


@pytest.mark.parametrize("token", ["alice-token", "nonsense"])
async def test_a_client_cannot_attach(world: RelayWorld, token: str) -> None:
    """B4: a token of a client could register as an agent."""
    host = await world.attach(Told(), token=token)
    assert host.state is HostState.REFUSED
    assert world.relay.sessions == 0


async def test_a_host_attaches_its_own_agents_alone(world: RelayWorld) -> None:
    await world.attach(Told())
    thief = await world.attach(Told(), agents={AGENT: "me/a", "other/agent": "me/b"})
    assert thief.state is HostState.REFUSED
    assert "other/agent" in thief.trouble
    assert (await world.send(Get().http)).status == 200


async def test_a_session_is_resumed_by_its_own_host_alone(world: RelayWorld) -> None:
    host = await world.attach(Told())
    world.principals["host-token"] = world.principals["other-host-token"]
    world.wire.cut()
    await world.clock.advance(2)
    assert host.state is HostState.ATTACHED
    assert world.relay.sessions == 1
    assert (await world.send(Get().http)).status == 200


async def test_a_revoked_token_ends_the_session(world: RelayWorld) -> None:
    """B11: the token of a live socket was never checked again."""
    host = await world.attach(Told())
    del world.principals["host-token"]
    await world.clock.advance(62)
    assert host.state is HostState.REFUSED
    assert (await world.send(Get().http)).status == 503


async def test_a_credential_that_ends_during_its_check_ends_the_session(
    world: RelayWorld,
) -> None:
    host = await world.attach(Told())
    may_end = asyncio.Event()
    identify = world.identify

    async def slowly(headers: Headers, address: str) -> Principal | None:
        principal = await identify(headers)
        await may_end.wait()
        return principal

    world.admission._identify = slowly
    world.relay.recheck()
    await settle()
    del world.principals["host-token"]
    world.relay.recheck()
    may_end.set()
    await settle()
    assert host.state is HostState.REFUSED


async def test_tokens_without_end_are_checked_one_at_a_time(world: RelayWorld) -> None:
    host = await world.attach(Told())
    checks = 0
    may_end = asyncio.Event()
    identify = world.identify

    async def slowly(headers: Headers, address: str) -> Principal | None:
        nonlocal checks
        checks += 1
        await may_end.wait()
        return await identify(headers)

    world.admission._identify = slowly
    for _ in range(100):
        newest(host).session.reauthenticate("host-token")
    newest(host).session.reauthenticate("nonsense")
    newest(host).carrier.flush()
    await settle()
    assert checks == 1
    may_end.set()
    await settle()
    # The last one counts; requests of a host that polls may show it as well.
    assert checks in (2, 3)
    assert host.state is HostState.REFUSED


async def test_the_relay_takes_no_more_sessions_than_it_may() -> None:
    async with open_relay(RelaySettings(max_sessions=1)) as world:
        await world.attach(Told())
        second = await world.attach(Told(), agents={"acme/other": "me/other"})
        assert second.state is HostState.CONNECTING
        assert "as many hosts" in second.trouble


async def test_one_tenant_keeps_no_other_one_out() -> None:
    async with open_relay(RelaySettings(max_sessions_of_one=1)) as world:
        hosts = {"one": "acme", "two": "acme", "three": "other"}
        for name, tenant in hosts.items():
            world.principals[name] = Principal(
                id=f"host:{tenant}:{name}", roles=(f"attach:{tenant}/{name}",)
            )
        states = []
        for name, tenant in hosts.items():
            agents = {f"{tenant}/{name}": "me/helper"}
            host = await world.attach(Told(), token=name, agents=agents)
            states.append(host.state)
        assert states == ["attached", "connecting", "attached"]
        # The same host, with a new connection of its session.
        world.wire.cut()
        await world.clock.advance(3)
        assert world.hosts[0].state is HostState.ATTACHED


async def test_a_tenant_has_as_many_agents_as_it_may() -> None:
    async with open_relay(RelaySettings(max_agents_of_one=2)) as world:
        world.principals["other-token"] = Principal(id="other", roles=("attach:other/*",))
        offered = {"host-token": ["acme/a", "acme/b"], "other-token": ["other/a", "other/b"]}
        for token, agents in offered.items():
            await world.attach(Told(), token=token, agents=dict.fromkeys(agents, "me/helper"))
        assert world.relay.attached_agents == 4
        # Those that it has already are not more.
        await world.attach(Told(), token="other-host-token", agents={"acme/a": "me/helper"})
        assert world.relay.attached_agents == 4
        third = await world.attach(Told(), agents={"acme/c": "me/helper"})
        assert third.attached_agents == {}
        assert world.relay.attached_agents == 4


async def test_a_credential_that_ends_before_the_hello_opens_no_session(world: RelayWorld) -> None:
    socket = await world.wire.dial("wss://relay.example/agent", "host-token")
    await settle()
    del world.principals["host-token"]
    # Whoever listens for revocations has no session to end yet.
    world.relay.recheck()
    await socket.send(encode(Hello(limits=Limits())))
    with pytest.raises(WebSocketClosed) as closed:
        await socket.receive()
    assert closed.value.code == NOT_AUTHENTICATED
    assert world.relay.sessions == 0


async def test_a_host_comes_again_if_its_credential_cannot_be_checked(world: RelayWorld) -> None:
    identify = world.identify
    checks = 0

    async def failing(headers: Headers, address: str) -> Principal | None:
        nonlocal checks
        checks += 1
        if checks == 2:
            raise Unavailable("The store is away", retry_after_s=5)
        return await identify(headers, address)

    world.admission._identify = failing
    host = await world.attach(Told())
    states = [host.state]
    await world.clock.advance(2)
    assert [*states, host.state] == [HostState.CONNECTING, HostState.ATTACHED]


async def test_a_body_that_is_too_large_stays_at_the_relay() -> None:
    async with open_relay(max_body_bytes=1000) as world:
        await world.attach(Told())
        answer = await world.send(Get(method="POST", body=[b"x" * 600, b"x" * 600]).http)
        assert answer.status == 413
        assert (await world.send(Get(method="POST", body=b"x" * 1000).http)).status == 200


async def test_a_host_takes_no_more_requests_than_it_says() -> None:
    few = SessionSettings(limits=Limits(max_streams=1))
    async with open_relay() as world:
        app = Scripted()
        await world.attach(app, session=few)
        async with world.http.open(Get().http):
            await settle()
            answer = await world.send(Get().http)
            assert answer.status == 503
            assert "1 requests under way" in answer.json()["error"]["message"]


async def test_one_caller_does_not_keep_the_others_out(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.relay.requests.MAX_PER_CALLER", 1)
    app = Scripted()
    await world.attach(app)
    async with world.http.open(Get().http):
        answer = await world.send(Get().http)
        assert answer.status == 429
        assert answer.headers["retry-after"] == "5"
        async with world.http.open(Get(token="reader-token").http) as other:
            assert other.status == 200
    await settle()
    async with world.http.open(Get().http) as again:
        assert again.status == 200


async def test_one_caller_does_not_keep_the_others_from_a_host(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller of many hosts may have as many at each."""
    monkeypatch.setattr("trunkline.relay.requests.MAX_PER_HOST", 1)
    await world.attach(Scripted(), agents={AGENT: "me/helper", "acme/second": "me/second"})
    await world.attach(Scripted(), agents={"acme/third": "me/third"}, token="other-host-token")
    async with world.http.open(Get().http):
        # Another agent of the same host.
        assert (await world.send(Get(agent="acme/second").http)).status == 429
        async with world.http.open(Get(agent="acme/third").http) as elsewhere:
            assert elsewhere.status == 200
        async with world.http.open(Get(token="reader-token").http) as other:
            assert other.status == 200


async def test_an_application_that_fails_answers_500(world: RelayWorld) -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        raise RuntimeError("secret")

    await world.attach(broken)
    answer = await world.send(Get().http)
    assert answer.status == 500
    assert b"secret" not in answer.body


# What a relay may not do.


@pytest.mark.parametrize(
    "target",
    [
        "/metrics",
        "/a2a/jsonrpc",
        "/t/acme/a2a/other",
        "/t/acme/a2a",
        "/t/acme/a2a/other/%2e%2e",
        "/t/acme/a2a/helper/\u0142",
        "/t/acme/a2a/helper?\u0142",
    ],
)
async def test_a_relay_reaches_nothing_but_the_agents_it_was_offered(
    world: RelayWorld, target: str
) -> None:
    await world.attach(Told())
    attached = world.relay.find(AGENT)
    assert attached is not None
    number = attached.session.open(
        agent=AGENT, caller=Caller(id="root"), method="GET", target=target, headers=[]
    )
    stream = attached.carrier.stream(number)
    attached.carrier.flush()
    end = await stream.next()
    assert isinstance(end, Cancelled)
    assert (end.reason, end.is_unsent) == ("refused", True)


async def test_a_relay_cannot_hand_on_a_credential(world: RelayWorld) -> None:
    await world.attach(Told())
    attached = world.relay.find(AGENT)
    assert attached is not None
    number = attached.session.open(
        agent=AGENT,
        caller=Caller(id="root"),
        method="GET",
        target="/t/acme/a2a/helper",
        headers=[("authorization", "Bearer of-the-operator"), ("x-api-key", "x"), ("a", "b")],
    )
    stream = attached.carrier.stream(number)
    attached.carrier.flush()
    body = b""
    while True:
        event = await stream.next()
        if isinstance(event, Piece):
            body += event.data
            if event.is_last:
                break
    assert b"of-the-operator" not in body
    assert b"x-api-key" not in body
    assert b'"a":"b"' in body


async def test_callers_are_principals_of_the_relay_with_grants_for_one_agent() -> None:
    callers = RelayedCallers(lambda: "secret")
    caller = Caller(id="jwt:alice", operations=("GetTask",), chain=("jwt:bob",))
    principal = principal_of(caller, relay="relay.example", handle="me/helper")
    assert principal == Principal(
        id="relay:relay.example:jwt:alice",
        grants=(Grant("me/helper", frozenset({"GetTask"})),),
        chain=("relay:relay.example:jwt:bob",),
    )
    credential = callers.admit(principal)
    assert callers.known({b"authorization": credential}) == principal
    assert await callers.identify({b"authorization": credential}) == principal
    assert callers.known({}) is None
    callers.leave(credential)
    assert callers.known({b"authorization": credential}) is None
