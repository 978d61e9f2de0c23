"""JSON Web Tokens as values: nothing that a stranger writes into one raises an error."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.jwt_issuer import Issuer

from trunkline.hub.credential_settings import JwtIssuer
from trunkline.hub.jwt_values import (
    is_signed,
    keys_in,
    looks_like_jwt,
    read_jwt,
    scopes_of,
    why_refused,
)

ISSUER = JwtIssuer(
    issuer="https://issuer.example",
    audience="here",
    jwks_url="https://issuer.example/jwks",
    scope_map={"a.read": ("read",)},
)
NOW_S = 1_750_000_000.0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
GOOD = {"iss": ISSUER.issuer, "aud": "here", "sub": "alice", "exp": NOW_S + 60}
KEYS = keys_in(Issuer().jwks())


def part(value: Any) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def test_the_good_claims_are_accepted() -> None:
    assert why_refused(GOOD, ISSUER, now_s=NOW_S) == ""


@given(name=st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "scope"]), value=JSON)
def test_no_claim_raises(name: str, value: Any) -> None:
    claims = {**GOOD, name: value}
    why = why_refused(claims, ISSUER, now_s=NOW_S)
    if name == "iss" and value != ISSUER.issuer:
        assert why
    assert set(scopes_of(claims, ISSUER)) <= {"read"}


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


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "aa.bb.cc.dd", "aa.bb.c c", "=.=.="])
def test_other_text_is_not_a_token(text: str) -> None:
    assert read_jwt(text.encode()) is None
