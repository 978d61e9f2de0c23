"""JSON Web Tokens as values: nothing that a stranger writes into one raises an error."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OctKey
from tests.hub.jwt_issuer import Issuer

from trunkline.protocol.jwt import (
    is_signed,
    is_signed_with,
    keys_in,
    looks_like_jwt,
    read_jwt,
    sign_with_secret,
    why_not_now,
)

NOW_S = 1_750_000_000.0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
GOOD = {"sub": "alice", "exp": NOW_S + 60}
KEYS = keys_in(Issuer().jwks())
SECRET = b"a secret of at least thirty-two bytes"


def part(value: Any) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


@given(header=JSON | st.fixed_dictionaries({"alg": JSON, "kid": JSON}), claims=JSON)
def test_no_header_raises(header: Any, claims: Any) -> None:
    found = read_jwt(part(header) + b"." + part(claims) + b".AAAA")
    assert found is None or isinstance(found.claims, dict)


@given(data=st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    if not looks_like_jwt(data):
        assert read_jwt(data) is None


@given(signature=st.binary(max_size=300))
def test_no_other_signature_is_good(signature: bytes) -> None:
    for algorithm, key in (("RS256", "rsa"), ("ES256", "ec"), ("EdDSA", "ed")):
        raw = base64.urlsafe_b64encode(signature).rstrip(b"=")
        token = read_jwt(part({"alg": algorithm, "kid": key}) + b"." + part(GOOD) + b"." + raw)
        assert token is not None
        assert not is_signed(token, KEYS)


def test_a_shared_secret_signs() -> None:
    text = sign_with_secret({"alg": "HS256", "kid": "k"}, GOOD, SECRET)
    token = read_jwt(text.encode())
    assert token is not None
    assert (token.algorithm, token.key_id, token.claims) == ("HS256", "k", GOOD)
    assert is_signed_with(token, [b"another", SECRET])
    assert not is_signed_with(token, [b"another"])
    assert not is_signed_with(token, [])


@pytest.mark.parametrize("algorithm", ["none", "HS384", "RS256", "ES256", "hs256", ""])
def test_a_secret_counts_for_one_algorithm(algorithm: str) -> None:
    token = read_jwt(sign_with_secret({"alg": algorithm}, GOOD, SECRET).encode())
    assert token is not None
    assert not is_signed_with(token, [SECRET])


@pytest.mark.parametrize("algorithm", ["none", "HS256", "", "unknown"])
def test_a_public_key_is_no_secret(algorithm: str) -> None:
    """The oldest fault of such libraries: the token says HS256, and its secret is the public
    key."""
    for key in KEYS:
        assert not isinstance(key, OctKey)
        for secret in (key.as_pem(private=False), key.as_bytes(private=False)):
            token = read_jwt(sign_with_secret({"alg": algorithm}, GOOD, secret).encode())
            assert token is not None
            assert not is_signed(token, KEYS)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"exp": NOW_S - 9, "nbf": NOW_S + 9, "iat": NOW_S + 10}, ""),
        ({"exp": None}, "it does not say when it ends"),
        ({"exp": "later"}, "it does not say when it ends"),
        ({"exp": True}, "it does not say when it ends"),
        ({"exp": 1e300}, "it does not say when it ends"),
        ({"exp": NOW_S - 10}, "it has expired"),
        ({"nbf": NOW_S + 11}, "it does not count yet"),
        ({"nbf": None}, "it does not count yet"),
    ],
)
def test_a_token_counts_within_its_times(changes: dict[str, Any], why: str) -> None:
    assert why_not_now(GOOD | changes, now_s=NOW_S, skew_s=10) == why


def test_a_token_of_the_future_tells_of_the_clocks() -> None:
    assert "compare the clocks" in why_not_now(GOOD | {"iat": NOW_S + 11}, now_s=NOW_S, skew_s=10)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "aa.bb.cc.dd", "aa.bb.c c", "=.=.="])
def test_other_text_is_not_a_token(text: str) -> None:
    assert read_jwt(text.encode()) is None
