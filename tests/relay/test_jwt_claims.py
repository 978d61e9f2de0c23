"""What the claims of a token say about its holder."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.relay.tenants_world import client_claims, host_claims

from trunkline.engine.access import may_attach, operations_of
from trunkline.model.calls import Operation
from trunkline.relay.tenants.jwt_claims import (
    MAX_AGENTS,
    SCOPES,
    Expected,
    Holder,
    TokenRefused,
    holder_of,
)

NOW_S = 1_750_000_000


def held(claims: dict[str, Any], expected: Expected | None = None) -> Holder:
    return holder_of(claims, expected or Expected(), now_s=NOW_S)


def client(**changes: Any) -> Holder:
    return held(client_claims(NOW_S * 1000, **changes))


def host(**changes: Any) -> Holder:
    return held(host_claims(NOW_S * 1000, **changes))


def why(claims: dict[str, Any], expected: Expected | None = None) -> str:
    with pytest.raises(TokenRefused) as refused:
        held(claims, expected)
    return refused.value.why


def test_a_client_calls_the_agents_of_its_tenant_and_attaches_none() -> None:
    principal = client().principal
    assert principal.id == "tenant:acme:alice"
    assert principal.token == "jti:jti-1"
    assert principal.ends_ms == (NOW_S + 3600 + 60) * 1000
    assert operations_of(principal, "acme/helper") is None
    assert operations_of(principal, "other/helper") == frozenset()
    # A tenant whose name begins alike.
    assert operations_of(principal, "acme-2/helper") == frozenset()
    assert not may_attach(principal)


def test_a_host_attaches_its_agents_and_calls_none() -> None:
    principal = host(agent_id=["helper", "reviewer"]).principal
    assert principal.id == "host:acme:helper,reviewer"
    attached = [may_attach(principal, f"acme/{name}") for name in ("helper", "reviewer", "other")]
    assert attached == [True, True, False]
    assert not may_attach(principal, "other/helper")
    assert operations_of(principal, "acme/helper") == frozenset()


def test_a_client_with_an_agent_id_is_no_host() -> None:
    assert not may_attach(client(agent_id="helper").principal)


def test_a_host_with_scopes_is_no_client() -> None:
    principal = host(scopes=["message:send"]).principal
    assert operations_of(principal, "acme/helper") == frozenset()


def test_clients_of_the_first_protocol_have_a_user_id() -> None:
    assert client(sub=None, user_id="bob").principal.id == "tenant:acme:bob"
    assert client(user_id="bob").principal.id == "tenant:acme:alice"


@pytest.mark.parametrize("form", ["list", "text", "scope"])
def test_scopes_limit_operations(form: str) -> None:
    named = ["message:send", "agents:read", "unknown:scope"]
    match form:
        case "list":
            changes: dict[str, Any] = {"scopes": named}
        case "text":
            changes = {"scopes": " ".join(named)}
        case _:
            changes = {"scope": " ".join(named)}
    found = operations_of(client(**changes).principal, "acme/helper")
    assert found == frozenset({"SendMessage", "GetExtendedAgentCard"})


def test_every_operation_has_one_scope() -> None:
    assert sorted(each for scope in SCOPES.values() for each in scope) == sorted(Operation)


@pytest.mark.parametrize("scopes", [[], "", ["unknown"], [1, None, {}]])
def test_a_client_without_a_known_scope_calls_nothing(scopes: Any) -> None:
    assert operations_of(client(scopes=scopes).principal, "acme/helper") == frozenset()


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"role": None}, "role"),
        ({"role": "admin"}, "role"),
        ({"role": ["client", "agent"]}, "role"),
        ({"tenant": None}, "tenant"),
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": "*"}, "tenant"),
        ({"tenant": "a" * 65}, "tenant"),
        ({"tenant": 7}, "tenant"),
        ({"exp": None}, "when it ends"),
        ({"exp": NOW_S - 60}, "expired"),
        ({"exp": "soon"}, "when it ends"),
        ({"exp": True}, "when it ends"),
        ({"exp": 1e300}, "when it ends"),
        ({"exp": NOW_S + 24 * 3600 + 61}, "24 hours"),
        ({"iat": NOW_S - 3600, "exp": NOW_S + 23 * 3600 + 61}, "24 hours"),
        ({"nbf": NOW_S + 61}, "not count yet"),
        ({"iat": NOW_S + 61}, "in the future"),
        ({"jti": 7}, "jti"),
        ({"jti": "a b"}, "jti"),
        ({"sub": "Ünï"}, "sub"),
        ({"sub": "a" * 161}, "sub"),
        ({"sub": None}, "user_id"),
        ({"user_id": ["a"]}, "user_id"),
        ({"scopes": 7}, "scopes"),
        ({"scopes": {"message:send": True}}, "scopes"),
    ],
)
def test_what_is_wrong_is_named(claims: dict[str, Any], text: str) -> None:
    assert text in why(client_claims(NOW_S * 1000, **claims))


@pytest.mark.parametrize(
    "agent_id",
    [None, "", "Helper", "a/b", "*", 7, [], ["helper", 7], ["a"] * (MAX_AGENTS + 1), "a" * 161],
)
def test_a_host_names_its_agents(agent_id: Any) -> None:
    assert "agent_id" in why(host_claims(NOW_S * 1000, agent_id=agent_id))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 59},
        {"nbf": NOW_S + 60},
        {"iat": NOW_S + 60},
        {"iat": None, "exp": NOW_S + 24 * 3600 + 60},
    ],
)
def test_clocks_may_differ_by_a_minute(claims: dict[str, Any]) -> None:
    assert client(**claims).principal.id == "tenant:acme:alice"


def test_issuer_and_audience_count_where_they_are_expected() -> None:
    expected = Expected(issuer="https://issuer.example", audience="relay")
    right: dict[str, Any] = {"iss": "https://issuer.example", "aud": ["other", "relay"]}
    assert held(client_claims(NOW_S * 1000, **right), expected).tenant == "acme"
    for issuer in (None, "https://issuer.example/", ["https://issuer.example"]):
        assert "issuer" in why(client_claims(NOW_S * 1000, **(right | {"iss": issuer})), expected)
    for audience in (None, "other", {"relay": 1}):
        wrong = right | {"aud": audience}
        assert "audience" in why(client_claims(NOW_S * 1000, **wrong), expected)


TEXT = st.text("aZ9-_.:*/ ä\0", max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
CLAIMS = (*host_claims(0), *client_claims(0), "user_id", "scopes", "scope", "nbf", "iss", "aud")


@given(changes=st.dictionaries(st.sampled_from(CLAIMS), JSON, max_size=4))
def test_any_claims_have_a_holder_or_are_refused(changes: dict[str, Any]) -> None:
    for claims in (client_claims, host_claims):
        made = {**claims(NOW_S * 1000), **changes}
        try:
            holder = held(made)
        except TokenRefused:
            continue
        assert may_attach(holder.principal) == (made["role"] == "agent")
