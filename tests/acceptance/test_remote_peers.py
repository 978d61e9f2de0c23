"""What a client keeps about a peer: its card, our credentials, its failures, its connections."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.acceptance.raw_peer import DONE, Asked, RawPeer, raw_peer, response, result
from tests.acceptance.remote import Sleepless, ask, collected, free_port

from trunkline.model.card import AgentInterface
from trunkline.model.values import Task
from trunkline.remote import (
    Agents,
    ApiKey,
    BadPeerAnswer,
    ClientCredentials,
    Limits,
    PeerRefused,
    PeerUnreachable,
    Target,
    connect,
)
from trunkline.testing import FakeClock


class Script:
    """A handler that gives its answers one after the other, the last one for ever."""

    def __init__(self, *steps: Callable[[Asked], bytes]) -> None:
        self._steps = list(steps)

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        answer = step(asked)
        if answer:
            writer.write(answer)
        else:
            writer.transport.abort()


def fine(asked: Asked) -> bytes:
    return result(asked, DONE if asked.rpc == "GetTask" else {"task": DONE})


def lost(asked: Asked) -> bytes:
    return b""


def busy(code: int, *headers: str) -> Callable[[Asked], bytes]:
    return lambda asked: response(b"{}", *headers, status=f"{code} Busy")


def calls(peer: RawPeer) -> list[Asked]:
    return [asked for asked in peer.asked if asked.path == "/rpc"]


async def test_a_read_is_tried_again_after_growing_pauses() -> None:
    clock = Sleepless()
    script = Script(lost, busy(503), fine)
    async with raw_peer(script) as peer, connect(peer.url, clock=clock) as agent:
        assert (await agent.get("t")).id == "t"
    assert len(calls(peer)) == 3
    first, second = clock.slept
    assert 0.1 <= first <= 0.2 <= second <= 0.4


async def test_a_message_that_may_have_arrived_is_not_sent_again() -> None:
    async with raw_peer(Script(lost, fine)) as peer, connect(peer.url) as agent:
        with pytest.raises(PeerUnreachable) as gone:
            await agent.send(ask("hi"))
        assert (gone.value.reason, gone.value.is_unsent) == ("CONNECTION_LOST", False)
        assert len(calls(peer)) == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_a_message_with_a_key_is_sent_again_with_the_same_key(announced: bool) -> None:
    """The key is there for peers that announce it, or when the target says so."""
    clock = Sleepless()

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path.endswith(".json"):
            header = ["Trunkline-Features: idempotency-key"] if announced else []
            writer.write(response(json.dumps(card).encode(), *header))
        else:
            await script(asked, writer)

    script = Script(lost, lost, fine)
    async with raw_peer(handle, has_card=False) as peer:
        card: dict[str, Any] = {"name": "Raw", "supportedInterfaces": [peer.interface()]}
        target = Target(url=peer.url, idempotency="auto" if announced else "always")
        async with connect(target, clock=clock) as agent:
            assert isinstance(await agent.send(ask("hi")), Task)
            assert isinstance(await agent.send(ask("hi")), Task)
    keys = [asked.headers["idempotency-key"] for asked in calls(peer)]
    assert len(keys) == 4
    assert len(set(keys)) == 2
    bodies = [json.loads(asked.body)["params"] for asked in calls(peer)[:3]]
    assert bodies[0] == bodies[1] == bodies[2]


async def test_a_stream_to_an_interface_where_nobody_is_ends_after_the_attempts_of_a_call() -> None:
    clock, port = Sleepless(), free_port()

    async def handle(asked: Asked, writer: asyncio.StreamWriter) -> None:
        there = {"url": f"http://127.0.0.1:{port}/rpc", "protocolBinding": "JSONRPC"}
        interfaces = [{**there, "protocolVersion": "1.0"}]
        card = {
            "name": "Raw",
            "capabilities": {"streaming": True},
            "supportedInterfaces": interfaces,
        }
        header = "Trunkline-Features: idempotency-key"
        writer.write(response(json.dumps(card).encode(), header))

    limits = Limits(attempts=3, reconnects=12)
    async with raw_peer(handle, has_card=False) as peer:
        target = Target(url=peer.url, trusted_origins=(f"http://127.0.0.1:{port}",))
        async with connect(target, clock=clock, limits=limits) as agent:
            with pytest.raises(PeerUnreachable) as nobody:
                await collected(agent.stream(ask("hi")))
    assert nobody.value.address == f"127.0.0.1:{port}"
    assert len(clock.slept) == 2


async def test_retry_after_is_honoured() -> None:
    clock = Sleepless()
    script = Script(busy(429, "Retry-After: 7"), fine)
    async with raw_peer(script) as peer, connect(peer.url, clock=clock) as agent:
        assert isinstance(await agent.send(ask("hi")), Task)
    assert clock.slept == [7.0]


async def test_a_long_retry_after_is_told_and_not_waited_for() -> None:
    clock = Sleepless()
    script = Script(busy(429, "Retry-After: 3600"))
    async with raw_peer(script) as peer, connect(peer.url, clock=clock) as agent:
        with pytest.raises(PeerRefused) as refused:
            await agent.send(ask("hi"))
    assert (refused.value.retry_after_s, refused.value.reason) == (3600.0, "HTTP_429")
    assert clock.slept == []


async def test_a_peer_that_fails_is_left_alone_and_tried_once_after_a_while() -> None:
    clock = Sleepless()
    limits = Limits(attempts=1, circuit_failures=3)
    script = Script(fine, lost, lost, lost, lost, fine)
    async with (
        raw_peer(script) as peer,
        connect(peer.url, clock=clock, limits=limits) as agent,
    ):
        await agent.get("t")
        for _ in range(3):
            with pytest.raises(PeerUnreachable):
                await agent.get("t")
        before = len(peer.asked)
        with pytest.raises(PeerUnreachable) as left:
            await agent.get("t")
        assert (left.value.reason, left.value.retry_after_s) == ("CIRCUIT_OPEN", 30.0)
        assert len(peer.asked) == before, "nothing is sent while the circuit is open"
        await clock.advance(30)
        with pytest.raises(PeerUnreachable, match="broke off"):
            await agent.get("t")
        with pytest.raises(PeerUnreachable, match="left alone"):
            await agent.get("t")
        await clock.advance(30)
        await agent.get("t")
        await agent.get("t")


class Cards:
    """A peer whose card has an ETag, and may change."""

    def __init__(self, *headers: str) -> None:
        self.name = "one"
        self.headers = headers
        self.statuses: list[int] = []
        self.is_down = False

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        tag = f'"{self.name}"'
        if self.is_down:
            answer = response(b"{}", status="500 Down")
        elif asked.headers.get("if-none-match") == tag:
            answer = response(b"", *self.headers, f"ETag: {tag}", status="304 Not Modified")
        else:
            card = {"name": self.name, "url": "https://x.example/"}
            answer = response(json.dumps(card).encode(), *self.headers, f"ETag: {tag}")
        self.statuses.append(int(answer.split()[1]))
        writer.write(answer)


async def test_a_card_is_kept_and_asked_for_by_the_rules_of_http() -> None:
    clock, cards = FakeClock(), Cards("Cache-Control: public, max-age=60")
    async with (
        raw_peer(cards, has_card=False) as peer,
        connect(peer.url, clock=clock) as agent,
    ):
        for _ in range(3):
            assert (await agent.card()).name == "one"
        assert cards.statuses == [200]
        await clock.advance(61)
        assert (await agent.card()).name == "one"
        assert cards.statuses == [200, 304]
        cards.name = "two"
        assert (await agent.card()).name == "one"
        assert (await agent.card(fresh=True)).name == "two"
        assert cards.statuses == [200, 304, 200]


async def test_a_card_that_is_not_to_be_kept_is_not() -> None:
    cards = Cards("Cache-Control: no-store")
    async with raw_peer(cards, has_card=False) as peer, connect(peer.url) as agent:
        await agent.card()
        await agent.card()
    assert cards.statuses == [200, 304]


async def test_d13_a_failure_is_not_kept() -> None:
    cards = Cards()
    cards.is_down = True
    async with raw_peer(cards, has_card=False) as peer, connect(peer.url) as agent:
        with pytest.raises(PeerRefused):
            await agent.card()
        cards.is_down = False
        assert (await agent.card()).name == "one"


async def test_many_who_ask_at_once_ask_the_peer_once() -> None:
    cards = Cards()
    async with raw_peer(cards, has_card=False) as peer, connect(peer.url) as agent:
        await asyncio.gather(*[agent.card() for _ in range(10)])
    assert cards.statuses == [200]


async def test_the_path_of_the_url_is_kept() -> None:
    cards = Cards()
    async with raw_peer(cards, has_card=False) as peer:
        for url in (f"{peer.url}/agents/one", f"{peer.url}/agents/one/"):
            async with connect(url) as agent:
                await agent.card()
        target = Target(url=f"{peer.url}/agents/one", card_path="/card.json")
        async with connect(target) as agent:
            await agent.card()
        async with connect(f"{peer.url}/own/place.json") as agent:
            await agent.card()
    assert [asked.path for asked in peer.asked] == [
        "/agents/one/.well-known/agent-card.json",
        "/agents/one/.well-known/agent-card.json",
        "/agents/one/card.json",
        "/own/place.json",
    ]


async def test_two_cards_at_one_url_are_two_agents() -> None:
    async def serve(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path.startswith("/rpc"):
            writer.write(fine(asked))
            return
        name = asked.path.strip("/").removesuffix(".json")
        card = {"name": name, "supportedInterfaces": [peer.interface(f"/rpc/{name}")]}
        writer.write(response(json.dumps(card).encode()))

    async with raw_peer(serve, has_card=False) as peer, Agents() as agents:
        for name in ("one", "two", "one"):
            agent = agents.at(Target(url=peer.url, card_path=f"/{name}.json"))
            assert (await agent.card()).name == name
            await agent.get("t")
            assert peer.asked[-1].path == f"/rpc/{name}"
        assert sum(asked.method == "GET" for asked in peer.asked) == 2


async def test_one_connection_is_used_for_many_calls() -> None:
    async with raw_peer(Script(fine)) as peer, connect(peer.url) as agent:
        for _ in range(5):
            await agent.get("t")
        assert peer.connections == 1


async def test_headers_and_keys_go_to_their_target() -> None:
    target_headers = {"X-Tenant": "acme", "Content-Type": "text/plain"}
    async with raw_peer(Script(fine)) as peer, Agents() as agents:
        key = ApiKey(key="secret-key-1", header="X-Key")
        target = Target(url=peer.url, headers=target_headers, credentials=key)
        await agents.at(target, headers={"X-Call": "7"}).get("t")
        await agents.at(target).get("t")
        await agents.at(Target(url=peer.url)).get("t")
    first, second, third = calls(peer)
    assert (first.headers["x-tenant"], first.headers["x-key"]) == ("acme", "secret-key-1")
    assert first.headers["content-type"] == "application/json"
    assert first.headers["x-call"] == "7"
    assert "x-call" not in second.headers
    assert {"x-key", "x-tenant"}.isdisjoint(third.headers)
    assert "secret-key-1" not in repr(target)


async def test_a_secret_that_the_peer_repeats_is_not_told() -> None:
    def repeats(asked: Asked) -> bytes:
        error = {"code": -32603, "message": f"bad {asked.headers['authorization']}"}
        data = [{"reason": "X", "given": asked.headers["authorization"]}]
        body = {"jsonrpc": "2.0", "id": asked.id, "error": error | {"data": data}}
        return response(json.dumps(body).encode())

    async with (
        raw_peer(Script(repeats)) as peer,
        connect(peer.url, token="secret-token-9") as agent,
    ):
        with pytest.raises(PeerRefused) as refused:
            await agent.get("t")
    error = refused.value
    assert error.message == "bad Bearer ***"
    assert "secret-token-9" not in f"{error!r} {error.data}"


async def test_a_secret_within_nonsense_is_not_told() -> None:
    def repeats(asked: Asked) -> bytes:
        return result(asked, DONE | {"status": {"state": asked.headers["authorization"]}})

    async with (
        raw_peer(Script(repeats)) as peer,
        connect(peer.url, token="secret-token-9") as agent,
    ):
        with pytest.raises(BadPeerAnswer, match="unknown value") as bad:
            await agent.get("t")
    assert "secret-token-9" not in bad.value.message


class TokenPeer:
    """An agent that takes only the token it gave last, and the endpoint that gives them."""

    def __init__(self, expires_in: object = 100) -> None:
        self.given = 0
        self.refuses = False
        self.card: object = None
        self._expires_in = expires_in

    async def __call__(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.path == "/token":
            if self.refuses:
                body = b'{"error":"invalid_client","error_description":"s3cret-of-client"}'
                writer.write(response(body, status="401 No"))
                return
            assert asked.headers["authorization"].startswith("Basic ")
            assert asked.body == b"grant_type=client_credentials&scope=a+b"
            self.given += 1
            token = {"access_token": f"token-{self.given}", "expires_in": self._expires_in}
            writer.write(response(json.dumps(token).encode()))
        elif asked.headers["authorization"] != f"Bearer token-{self.given}":
            writer.write(response(b"{}", status="401 No"))
        elif asked.path == "/rpc":
            writer.write(fine(asked))
        else:
            writer.write(response(json.dumps(self.card).encode()))


def client(peer: RawPeer) -> Target:
    credentials = ClientCredentials(
        token_url=f"{peer.url}/token",
        client_id="me",
        client_secret="s3cret-of-client",
        scopes=("a", "b"),
    )
    assert "s3cret-of-client" not in repr(credentials)
    return Target(url=peer.url, credentials=credentials)


async def test_a_token_is_fetched_once_kept_and_renewed_in_time() -> None:
    clock, tokens = FakeClock(), TokenPeer()
    async with raw_peer(tokens) as peer, connect(client(peer), clock=clock) as agent:
        await asyncio.gather(*[agent.get("t") for _ in range(5)])
        assert tokens.given == 1
        await clock.advance(69)
        await agent.get("t")
        assert tokens.given == 1
        await clock.advance(2)
        await agent.get("t")
        assert tokens.given == 2


async def test_a_token_that_is_withdrawn_is_replaced_once() -> None:
    tokens = TokenPeer()
    async with raw_peer(tokens) as peer, connect(client(peer)) as agent:
        await agent.get("t")
        tokens.given += 5
        await agent.send(ask("hi"))
        assert tokens.given == 7


async def test_many_who_find_a_token_withdrawn_replace_it_once() -> None:
    tokens = TokenPeer()
    async with raw_peer(tokens) as peer, connect(client(peer)) as agent:
        await agent.get("t")
        tokens.given += 5
        await asyncio.gather(*[agent.get("t") for _ in range(20)])
        assert tokens.given == 7


async def test_a_token_that_is_withdrawn_is_replaced_for_a_card_too() -> None:
    tokens = TokenPeer()
    async with (
        raw_peer(tokens, has_card=False) as peer,
        connect(client(peer)) as agent,
    ):
        tokens.card = {"name": "Raw", "supportedInterfaces": [peer.interface()]}
        await agent.card()
        tokens.given += 5
        assert (await agent.card(fresh=True)).name == "Raw"
        assert tokens.given == 7


@pytest.mark.parametrize("expires_in", ["100", None], ids=["text", "unstated"])
async def test_a_token_says_how_long_it_is_good_in_the_forms_that_are_in_use(
    expires_in: object,
) -> None:
    clock, tokens = FakeClock(), TokenPeer(expires_in)
    async with raw_peer(tokens) as peer, connect(client(peer), clock=clock) as agent:
        await agent.get("t")
        await clock.advance(69)
        await agent.get("t")
        assert tokens.given == 1
        await clock.advance(202)
        await agent.get("t")
        assert tokens.given == 2


async def test_a_token_endpoint_that_refuses() -> None:
    tokens = TokenPeer()
    tokens.refuses = True
    async with raw_peer(tokens) as peer, connect(client(peer)) as agent:
        with pytest.raises(PeerRefused) as refused:
            await agent.get("t")
    assert refused.value.reason == "TOKEN_REFUSED"
    assert refused.value.message.endswith("status 401: invalid_client")


async def test_two_interfaces_of_one_agent_are_called_each_at_its_own() -> None:
    async with raw_peer(Script(fine)) as peer, Agents() as agents:
        for path in ("/rpc", "/other"):
            given = AgentInterface(
                url=peer.url + path, protocol_binding="JSONRPC", protocol_version="1.0"
            )
            await agents.at(Target(url=peer.url, interfaces=(given,))).get("t")
        assert [asked.path for asked in peer.asked if asked.method == "POST"] == ["/rpc", "/other"]


async def test_of_many_targets_the_one_not_called_for_longest_is_forgotten() -> None:
    async with raw_peer(Script(fine)) as peer:
        agents = Agents(max_links=2)
        targets = [Target(url=peer.url, headers={"X-Number": str(n)}) for n in range(3)]
        first = agents.at(targets[0])
        for target in (targets[0], targets[1], targets[0], targets[2], targets[0], targets[1]):
            await agents.at(target).get("t")
        cards = [one.headers["x-number"] for one in peer.asked if one.method == "GET"]
        assert cards == ["0", "1", "2", "1"]
        await agents.at(targets[2]).get("t")
        await first.get("t")
        await agents.close()
        with pytest.raises(PeerUnreachable) as closed:
            await first.get("t")
        assert closed.value.reason == "CLOSED"


async def test_a_stream_to_nowhere_is_unreachable() -> None:
    async with connect(f"http://127.0.0.1:{free_port()}", clock=Sleepless()) as agent:
        with pytest.raises(PeerUnreachable):
            await collected(agent.subscribe("t"))


async def test_what_is_closed_stays_closed() -> None:
    async with raw_peer(Script(fine)) as peer:
        async with connect(peer.url) as agent:
            await agent.get("t")
        with pytest.raises(PeerUnreachable) as closed:
            await agent.get("t")
        assert closed.value.reason == "CLOSED"
