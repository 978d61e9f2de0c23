"""What the client decides without a network: ways, retries, circuits."""

import pytest

from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface
from trunkline.remote.breaker import Breaker
from trunkline.remote.cards import freshness_s
from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    TransportUnsupported,
)
from trunkline.remote.interfaces import ways
from trunkline.remote.retries import delay_s, may_retry, retry_after_s
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
    found = ways(CARD, Target(url="https://x", transports=transports, version=version))
    assert [way.url.rpartition("/")[2] for way in found] == expected


def test_interfaces_of_the_target_replace_those_of_the_card() -> None:
    [given] = card(("http://127.0.0.1:1/rpc", "JSONRPC", "1.0")).supported_interfaces
    [way] = ways(CARD, Target(url="http://127.0.0.1:1", interfaces=(given,)))
    assert way.url == "http://127.0.0.1:1/rpc"
    with pytest.raises(TransportUnsupported, match=r"the agent offers JSONRPC 1\.0;"):
        ways(CARD, Target(url="https://x", transports=("HTTP+JSON",), interfaces=(given,)))


def test_who_has_no_way_says_what_there_is() -> None:
    with pytest.raises(TransportUnsupported, match=r"GRPC 1\.0") as none:
        ways(CARD, Target(url="https://x", transports=("GRPC",)))
    assert none.value.reason == "TRANSPORT_UNSUPPORTED"


def test_what_is_secret_over_tls_is_not_sent_in_the_clear() -> None:
    only = card(("http://x/rpc", "JSONRPC", "1.0"))
    assert ways(only, Target(url="http://x"))
    with pytest.raises(TransportUnsupported):
        ways(only, Target(url="https://x"))


def test_pauses_grow_are_spread_and_bounded() -> None:
    assert delay_s(0, 0.0) == pytest.approx(0.1)
    assert delay_s(0, 1.0) == pytest.approx(0.2)
    assert delay_s(1, 1.0) == pytest.approx(0.4)
    assert delay_s(1000, 1.0) == 10.0


def refused(status: int, retry_after_s: float | None = None) -> PeerRefused:
    error = PeerRefused("no", status=status)
    error.retry_after_s = retry_after_s
    return error


@pytest.mark.parametrize(
    ("error", "once", "repeatable"),
    [
        (PeerUnreachable("x", is_unsent=True), True, True),
        (PeerUnreachable("x"), False, True),
        (PeerUnreachable("x", reason="CIRCUIT_OPEN", is_unsent=True), False, False),
        (PeerTimeout("x", is_unsent=True), True, True),
        (PeerTimeout("x"), False, False),
        (refused(429), True, True),
        (refused(429, 31), False, False),
        (refused(503), False, True),
        (refused(503, 31), False, False),
        (refused(500), False, False),
        (refused(404), False, False),
        (BadPeerAnswer("x"), False, False),
    ],
)
def test_what_is_tried_again(error: RemoteError, once: bool, repeatable: bool) -> None:
    assert may_retry(error, is_repeatable=False) is once
    assert may_retry(error, is_repeatable=True) is repeatable


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("12", 12.0),
        (" 0 ", 0.0),
        ("Sun, 15 Jun 2025 15:06:50 GMT", 10.0),
        ("Sun, 15 Jun 2024 15:06:50 GMT", 0.0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after(header: str | None, expected: float | None) -> None:
    assert retry_after_s(header, 1_750_000_000_000) == expected


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("", 300.0),
        ("public, max-age=60", 60.0),
        ("MAX-AGE = 5", 5.0),
        ("no-store", 0.0),
        ("no-cache, max-age=60", 0.0),
        ("max-age=x", 300.0),
    ],
)
def test_freshness(control: str, expected: float) -> None:
    assert freshness_s({"cache-control": control}) == expected


def test_a_circuit_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker(failures=2, open_s=10)
    breaker.failed(0)
    breaker.succeeded()
    breaker.failed(1)
    assert breaker.wait_s(1) == 0
    breaker.failed(2)
    assert breaker.is_open
    assert breaker.wait_s(3) == 9


def test_half_open_lets_one_probe_through() -> None:
    breaker = Breaker(failures=1, open_s=10)
    breaker.failed(0)
    assert breaker.wait_s(10) == 0
    assert breaker.wait_s(10) > 0, "the probe is out"
    breaker.failed(11)
    assert breaker.wait_s(12) == 9
    assert breaker.wait_s(21) == 0
    breaker.abandoned()
    assert breaker.wait_s(21) == 0, "a probe that told nothing is free again"
    breaker.succeeded()
    assert breaker.wait_s(21) == breaker.wait_s(21) == 0
