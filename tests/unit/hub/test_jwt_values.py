"""The claims of tokens of an issuer: nothing that a stranger writes into one raises an error."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.test_jwt import JSON

from trunkline.hub.credential_settings import JwtIssuer
from trunkline.hub.jwt_values import scopes_of, why_refused

ISSUER = JwtIssuer(
    issuer="https://issuer.example",
    audience="here",
    jwks_url="https://issuer.example/jwks",
    scope_map={"a.read": ("read",)},
)
NOW_S = 1_750_000_000.0
GOOD = {"iss": ISSUER.issuer, "aud": "here", "sub": "alice", "exp": NOW_S + 60}


def test_the_good_claims_are_accepted() -> None:
    assert why_refused(GOOD, ISSUER, now_s=NOW_S) == ""


@given(name=st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "scope"]), value=JSON)
def test_no_claim_raises(name: str, value: Any) -> None:
    claims = {**GOOD, name: value}
    why = why_refused(claims, ISSUER, now_s=NOW_S)
    if name == "iss" and value != ISSUER.issuer:
        assert why
    assert set(scopes_of(claims, ISSUER)) <= {"read"}
