"""Which claims of an ID token are accepted (OpenID Connect Core, 3.1.3.7)."""

from typing import Any

import pytest

from trunkline.hub.providers.id_token import SKEW_S, claims_of, why_refused

NOW = 1_800_000_000.0
GOOD: dict[str, Any] = {
    "iss": "https://id.example.com",
    "aud": "trunkline",
    "sub": "248289761001",
    "nonce": "n" * 43,
    "exp": NOW + 300,
    "iat": NOW,
}


def why(**changes: Any) -> str:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return why_refused(
        claims,
        issuer="https://id.example.com",
        client_id="trunkline",
        nonce="n" * 43,
        now_s=NOW,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["trunkline"]},
        {"aud": ["trunkline", "other"], "azp": "trunkline"},
        {"azp": "trunkline"},
        {"exp": NOW - SKEW_S + 1},
        {"iat": NOW + SKEW_S},
        {"iat": NOW - 600},
        {"nbf": NOW + SKEW_S},
        {"sub": "é" * 255},
    ],
)
def test_good_claims(changes: dict[str, Any]) -> None:
    assert why(**changes) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": None},
        {"iss": "https://id.example.com/"},
        {"iss": "https://evil.example"},
        {"iss": ["https://id.example.com"]},
        {"aud": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": {"trunkline": 1}},
        {"aud": ["trunkline", "other"]},
        {"aud": ["trunkline", "other"], "azp": "other"},
        {"azp": "other"},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "x" * 256},
        {"nonce": None},
        {"nonce": "m" * 43},
        {"exp": None},
        {"exp": NOW - SKEW_S},
        {"exp": "tomorrow"},
        {"exp": True},
        {"exp": float("nan")},
        {"iat": None},
        {"iat": NOW + SKEW_S + 1},
        {"iat": NOW - 3600},
        {"nbf": NOW + SKEW_S + 1},
        {"nbf": "x"},
    ],
)
def test_bad_claims(changes: dict[str, Any]) -> None:
    assert why(**changes)


def test_claims_of_another_type_count_as_missing() -> None:
    claims = claims_of(
        {"sub": "1", "name": 5, "email": "a@b.c", "email_verified": "true", "nickname": "ada"}
    )
    assert (claims.subject, claims.name, claims.nickname) == ("1", "", "ada")
    assert claims.email == "a@b.c"
    assert not claims.has_verified_email
