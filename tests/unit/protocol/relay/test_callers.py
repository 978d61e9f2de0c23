import pytest
from msgspec.structs import replace

from trunkline.protocol.card_signing import base64url
from trunkline.protocol.relay import callers
from trunkline.protocol.relay.callers import Caller, Request, sign, verify

KEY = b"key"
CALLER = Caller(id="jwt:ö", operations=("GetTask",), chain=("a", "b"))
REQUEST = Request(session="s", stream=1, agent="helper", method="POST", target="/a?b=%20")


def test_a_signed_caller_is_known_again() -> None:
    assert verify(sign(CALLER, REQUEST, KEY), REQUEST, KEY) == CALLER


@pytest.mark.parametrize(
    "other",
    [
        {"session": "t"},
        {"stream": 2},
        {"agent": "other"},
        {"method": "GET"},
        {"target": "/a?b=%21"},
        {"task": "t"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_it_counts_for_one_request(other: dict[str, object]) -> None:
    assert verify(sign(CALLER, REQUEST, KEY), replace(REQUEST, **other), KEY) is None


def test_another_key_does_not_verify_it() -> None:
    assert verify(sign(CALLER, REQUEST, b"other"), REQUEST, KEY) is None


def test_a_caller_cannot_be_changed() -> None:
    header, _, signature = sign(CALLER, REQUEST, KEY).split(".")
    _, payload, _ = sign(replace(CALLER, id="root"), REQUEST, b"other").split(".")
    assert verify(f"{header}.{payload}.{signature}", REQUEST, KEY) is None


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "ü.ü.ü", "a" * 1000])
def test_what_is_no_token_is_no_caller(token: str) -> None:
    assert verify(token, REQUEST, KEY) is None


@pytest.mark.parametrize("payload", [b"{}", b"no JSON", b'{"sub":1}', b"\xff"])
def test_a_signed_text_that_is_no_caller(payload: bytes) -> None:
    """A relay with faults of its own."""
    signed = f"{callers._HEADER}.{base64url(payload)}"
    token = f"{signed}.{callers._signature(signed, KEY)}"
    assert verify(token, REQUEST, KEY) is None


@pytest.mark.parametrize("id", ["", "a\0b", "a\n", "\x7f", "a" * 513])
def test_a_name_that_no_store_takes_is_no_caller(id: str) -> None:
    assert verify(sign(replace(CALLER, id=id), REQUEST, KEY), REQUEST, KEY) is None


def test_another_algorithm_does_not_count() -> None:
    """RFC 8725, 3.1: nothing in the token chooses how it is checked."""
    _, payload, signature = sign(CALLER, REQUEST, KEY).split(".")
    header = base64url(b'{"alg":"none"}')
    assert verify(f"{header}.{payload}.{signature}", REQUEST, KEY) is None
    assert verify(f"{header}.{payload}.", REQUEST, KEY) is None
