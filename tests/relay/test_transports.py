"""Hosts that find out whether their network lets WebSockets pass."""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct, field
from tests.relay.apps import Scripted, Told
from tests.relay.polling_wire import Fate, MemoryHttp
from tests.relay.wire import End, Wire
from tests.relay.world import AGENT, Get, RelayWorld, open_relay

from trunkline.protocol.relay.close_codes import FORBIDDEN, NOT_AUTHENTICATED
from trunkline.relay.hosts import dialing
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.relay.hosts.host import Host, HostSettings, HostState
from trunkline.relay.hosts.relayed_callers import RelayedCallers
from trunkline.relay.hosts.transports import Transport, Transports
from trunkline.remote.http import Answer
from trunkline.testing import settle

URL = "wss://relay.example/agent"


class Network(Struct):
    """What passes between a host and the relay of a world, and what the host tried."""

    world: RelayWorld
    # Why no WebSocket passes; None if one does.
    websockets: DialFailed | None = None
    # Whether a WebSocket opens and then lets nothing pass.
    is_mute: bool = False
    # What answers requests in place of the relay.
    requests: Fate | None = None
    tried: list[str] = field(default_factory=list)

    async def dial(self, url: str, token: str) -> End:
        self.tried.append("websocket")
        if self.websockets is not None:
            raise self.websockets
        assert isinstance(self.world.wire, Wire)
        if self.is_mute:
            end = End()
            end.other = End()
            return end
        return await self.world.wire.dial(url, token)

    def open_http(self, url: str) -> MemoryHttp:
        assert url == "https://relay.example/agent/connections"
        self.tried.append("long-poll")
        return MemoryHttp(self.world.polling, lambda *_: self.requests)

    def attach(self, app: object, *, transport: Transport = "auto", token: str = "") -> Host:
        async def provider() -> str:
            return token or "host-token"

        transports = Transports(transport, clock=self.world.clock, open_http=self.open_http)
        host = Host(
            HostSettings(url=URL, agents={AGENT: "me/helper"}),
            app=app,  # type: ignore[arg-type]
            callers=RelayedCallers(),
            token=provider,
            clock=self.world.clock,
            dial=transports.dial,
            chance=lambda: 1.0,
        )
        self.world.hosts.append(host)
        self.world.others.append(transports)
        host.start()
        return host


BLOCKED = DialFailed("no WebSocket is opened there (status 403)", code=FORBIDDEN, may_pass=True)
DEAD = DialFailed("cannot connect: connection refused")


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    async with open_relay() as world:
        network = Network(world)
        monkeypatch.setattr(dialing, "dial", network.dial)
        yield network


async def test_a_websocket_is_tried_first(network: Network) -> None:
    host = network.attach(Told())
    await settle()
    assert host.state is HostState.ATTACHED
    assert network.tried == ["websocket"]


async def test_where_it_does_not_pass_requests_do(network: Network) -> None:
    network.websockets = BLOCKED
    host = network.attach(Told())
    await settle()
    assert host.state is HostState.ATTACHED
    assert (await network.world.send(Get().http)).status == 200
    # The next connection begins with what worked.
    for socket in network.world.polling.open_sockets:
        await socket.close(1011, "as when the relay has an error")
    await network.world.clock.advance(2)
    assert network.tried == ["websocket", "long-poll", "long-poll"]
    assert (await network.world.send(Get().http)).status == 200


async def test_a_stream_moves_to_a_websocket_once_one_passes(network: Network) -> None:
    network.websockets = BLOCKED
    app, world = Scripted(), network.world
    network.attach(app)
    await settle()
    async with world.http.open(Get().http) as response:
        await settle()
        app.requests[0].say(b"1")
        await world.clock.advance(310)
        assert network.tried == ["websocket", "long-poll", "websocket"]
        network.websockets = None
        await world.clock.advance(602)
        app.requests[0].say(b"2", is_last=True)
        assert b"".join([chunk async for chunk in response.chunks()]) == b"12"
    assert network.tried[3:] == ["websocket"]
    assert not world.polling.open_sockets
    assert len(app.requests) == 1


async def test_a_websocket_that_was_opened_long_ago_is_not_used(network: Network) -> None:
    """As when the session has moved to another relay meanwhile."""
    network.websockets = BLOCKED
    transports = Transports("auto", clock=network.world.clock, open_http=network.open_http)
    network.world.others.append(transports)
    await transports.dial(URL, "host-token")
    network.websockets = None
    await network.world.clock.advance(301)
    assert isinstance(network.world.wire, Wire)
    [unused] = network.world.wire.ends
    await network.world.clock.advance(6)
    socket = await transports.dial(URL, "host-token")
    assert unused.closed is not None
    assert network.tried == ["websocket", "long-poll", "websocket", "websocket"]
    await socket.close(1000, "")


async def test_a_websocket_that_is_mute_is_given_up(network: Network) -> None:
    network.is_mute = True
    host = network.attach(Told())
    await network.world.clock.advance(12)
    assert host.state is HostState.ATTACHED
    assert network.tried == ["websocket", "long-poll"]


async def test_a_relay_that_knows_no_requests_is_tried_by_websocket_again(network: Network) -> None:
    network.websockets, network.requests = BLOCKED, Answer(404, {}, b"<html>")
    host = network.attach(Told())
    await settle()
    # Whoever answers is not the relay, so its status refuses nothing for good.
    assert (host.state, host.trouble) == (HostState.CONNECTING, BLOCKED.message)
    await network.world.clock.advance(1)
    assert network.tried == ["websocket", "long-poll"] * 2


@pytest.mark.parametrize(
    ("token", "code"), [("nonsense", NOT_AUTHENTICATED), ("alice-token", FORBIDDEN)]
)
async def test_a_refusal_of_the_relay_is_final(network: Network, token: str, code: int) -> None:
    network.websockets = BLOCKED
    host = network.attach(Told(), token=token)
    await network.world.clock.advance(100)
    assert host.state is HostState.REFUSED
    assert network.tried == ["websocket", "long-poll"]


@pytest.mark.parametrize("code", [NOT_AUTHENTICATED, 1006])
async def test_where_the_relay_answers_or_nothing_does_requests_are_not_tried(
    network: Network, code: int
) -> None:
    network.websockets = DialFailed("refused", code=code)
    network.attach(Told())
    await network.world.clock.advance(2)
    assert set(network.tried) == {"websocket"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[" * 9999,
        b'{"connection":"../../x","protocol":"a2a.relay.v2"}',
        b'{"connection":"x","protocol":"other"}',
        b'{"connection":"x","protocol":"a2a.relay.v2","poll_s":1e300}',
        b'{"connection":"x","protocol":"a2a.relay.v2","poll_s":0}',
        b'{"connection":"' + b"x" * 999 + b'","protocol":"a2a.relay.v2"}',
    ],
)
async def test_an_answer_that_is_not_of_a_relay_opens_nothing(
    network: Network, body: bytes
) -> None:
    network.requests = Answer(201, {}, body)
    host = network.attach(Told(), transport="long-poll")
    await settle()
    assert host.state is HostState.CONNECTING
    assert "what answers there" in host.trouble


@pytest.mark.parametrize("transport", ["websocket", "long-poll"])
async def test_a_configured_transport_is_the_only_one(
    network: Network, transport: Transport
) -> None:
    network.websockets, network.requests = BLOCKED, Answer(502, {}, b"")
    network.attach(Told(), transport=transport)
    await network.world.clock.advance(100)
    assert set(network.tried) == {transport}
