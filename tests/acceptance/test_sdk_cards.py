"""Cards, as the resolver of a2a-sdk and the client factory read them."""

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.errors import AgentCardResolutionError
from a2a.utils.errors import UnsupportedOperationError
from tests.acceptance.gateway import Gateway, http_client
from tests.acceptance.sdk import BINDINGS, connect, request, spoken_in

CARD = "/.well-known/agent-card.json"


async def test_a_card_without_a_version_serves_both_generations(shared: Gateway) -> None:
    async with http_client() as http:
        card = await A2ACardResolver(http, shared.url).get_agent_card()
        raw = (await http.get(f"{shared.url}{CARD}")).json()
    offered = [(one.protocol_binding, one.protocol_version) for one in card.supported_interfaces]
    assert offered == [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "0.3"),
    ]
    # What a client of 0.3 looks for.
    assert raw["protocolVersion"] == "0.3.0"
    assert raw["url"] == shared.jsonrpc_url
    assert raw["preferredTransport"] == "JSONRPC"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_factory_prefers_the_current_version(shared: Gateway, binding: str) -> None:
    requests: list[httpx.Request] = []

    async def record(sent: httpx.Request) -> None:
        requests.append(sent)

    async with http_client(event_hooks={"request": [record]}) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDINGS[binding]])
        client = await ClientFactory(config).create_from_url(shared.url)
        events = [event async for event in client.send_message(request("say hello"))]
    assert events[0].HasField("task")
    assert [spoken_in(sent) for sent in requests[1:]] == [(binding, "1.0")]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_known_card_is_not_sent_again(shared: Gateway, version: str) -> None:
    headers = {"A2A-Version": version}
    async with http_client(headers=headers) as http:
        first = await http.get(f"{shared.url}{CARD}")
        known = {"If-None-Match": first.headers["etag"]}
        again = await http.get(f"{shared.url}{CARD}", headers=known)
        other = await http.get(f"{shared.url}{CARD}", headers=known | {"A2A-Version": ""})
        # The resolver of the SDK keeps no card, and says so.
        with pytest.raises(AgentCardResolutionError) as refused:
            await A2ACardResolver(http, shared.url).get_agent_card(http_kwargs={"headers": known})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert other.status_code == 200
    assert refused.value.status_code == 304


async def test_every_agent_has_a_card_under_its_handle(shared: Gateway) -> None:
    async with http_client() as http:
        resolver = A2ACardResolver(http, shared.agent_url("test/echo"))
        assert (await resolver.get_agent_card()).name == "Echo"
        assert (await resolver.get_agent_card("agent-card.json")).name == "Echo"
        nobody = A2ACardResolver(http, shared.agent_url("test/nobody"))
        with pytest.raises(AgentCardResolutionError) as refused:
            await nobody.get_agent_card()
    assert refused.value.status_code == 404


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_agent_that_does_not_stream_says_so(shared: Gateway, binding: str) -> None:
    async with connect(shared, binding, "1.0", agent="test/whole") as peer:
        assert not peer.card.capabilities.streaming
        # The SDK sees that and sends instead.
        [event] = [event async for event in peer.stream("hello")]
        assert event.task.artifacts[0].parts[0].text == "hello"
        peer.card.capabilities.streaming = True
        with pytest.raises(UnsupportedOperationError):
            await anext(peer.stream("hello"))
