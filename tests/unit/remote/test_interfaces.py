"""Which interface of a card is called."""

import pytest

from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface
from trunkline.remote.errors import (
    TransportUnsupported,
)
from trunkline.remote.interfaces import endpoints_of
from trunkline.remote.target import Target


def card(*interfaces: tuple[str, str, str]) -> AgentCard:
    return AgentCard(
        name="n",
        description="",
        version="",
        capabilities=AgentCapabilities(),
        default_input_modes=(),
        default_output_modes=(),
        skills=(),
        supported_interfaces=tuple(
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for url, binding, version in interfaces
        ),
    )


CARD = card(
    ("https://x/rest", "http+json", "1.0"),
    ("https://x/grpc", "GRPC", "1.0"),
    ("https://x/rpc", "JSONRPC", "1.0"),
    ("https://x/old", "JSONRPC", "0.3.0"),
)


@pytest.mark.parametrize(
    ("transports", "version", "expected"),
    [
        (("JSONRPC", "HTTP+JSON"), "", ["rpc", "old", "rest"]),
        (("HTTP+JSON", "JSONRPC"), "", ["rest", "rpc", "old"]),
        (("jsonrpc",), "", ["rpc", "old"]),
        (("JSONRPC", "HTTP+JSON"), "0.3", ["old"]),
        (("GRPC", "JSONRPC"), "1.0", ["rpc"]),
    ],
)
def test_our_order_comes_first_then_that_of_the_card(
    transports: tuple[str, ...], version: str, expected: list[str]
) -> None:
    found = endpoints_of(CARD, Target(url="https://x", transports=transports, version=version))
    assert [endpoint.url.rpartition("/")[2] for endpoint in found] == expected


def test_interfaces_of_the_target_replace_those_of_the_card() -> None:
    [given] = card(("http://127.0.0.1:1/rpc", "JSONRPC", "1.0")).supported_interfaces
    [endpoint] = endpoints_of(CARD, Target(url="http://127.0.0.1:1", interfaces=(given,)))
    assert endpoint.url == "http://127.0.0.1:1/rpc"
    with pytest.raises(TransportUnsupported, match=r"the agent offers JSONRPC 1\.0;"):
        endpoints_of(CARD, Target(url="https://x", transports=("HTTP+JSON",), interfaces=(given,)))


def test_who_has_no_way_says_what_there_is() -> None:
    with pytest.raises(TransportUnsupported, match=r"GRPC 1\.0") as none:
        endpoints_of(CARD, Target(url="https://x", transports=("GRPC",)))
    assert none.value.reason == "TRANSPORT_UNSUPPORTED"


def test_what_is_secret_over_tls_is_not_sent_in_the_clear() -> None:
    only = card(("http://x/rpc", "JSONRPC", "1.0"))
    assert endpoints_of(only, Target(url="http://x"))
    with pytest.raises(TransportUnsupported):
        endpoints_of(only, Target(url="https://x"))
