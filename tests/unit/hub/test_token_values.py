"""Tokens as values: their form, and what they allow."""

import pytest
from msgspec.structs import replace

from trunkline.engine.access import is_unrestricted, reaches, why_denied
from trunkline.hub.token_values import (
    ID,
    OPERATIONS,
    READS,
    Scope,
    Token,
    digest_of,
    id_of,
    looks_like_token,
    new_text,
    operations_of,
    prefix_of,
    principal_of,
)
from trunkline.model.principal import OPERATOR, Grant, manages

RANDOM = "0123456789abcdef" * 3


TOKEN = Token(
    id="tok_1",
    kind="key",
    name="ci",
    principal="token:ci",
    prefix="tl_key_012345",
    digest="d" * 64,
    created_ms=1000,
)


def token(**changes: object) -> Token:
    return replace(TOKEN, **changes)


def may(it: Token, agent: str, operation: str, *, is_open: bool = False) -> bool:
    return why_denied(principal_of(it), agent, operation, is_open=is_open) is None


def test_each_kind_has_its_form() -> None:
    assert new_text("session", "trunkline", RANDOM) == "tl_sess_0123456789abcdef0123456789abcdef"
    assert new_text("session", "clawborrator", RANDOM).startswith("cw_sess_0123")
    key = new_text("key", "trunkline", RANDOM)
    assert key == "tl_key_" + RANDOM[:40]
    assert prefix_of(key) == "tl_key_012345"
    assert looks_like_token(key.encode())
    assert ID.fullmatch(id_of(digest_of(key.encode())))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tl_sess_",
        "tl_sess_0123456789abcdef0123456789abcde",
        "tl_sess_0123456789abcdef0123456789abcdef0",
        "tl_sess_0123456789ABCDEF0123456789ABCDEF",
        "tl_sess_0123456789abcdef0123456789abcdef\n",
        "tl_sess_0123456789abcdef0123456789abcdef,tl_sess_0123456789abcdef0123456789abcdef",
        "xx_sess_0123456789abcdef0123456789abcdef",
        "tl_sess_0123456789abcdef0123456789abcd\u00e9f",
        "tl_key_" + "0" * 100_000,
    ],
    ids=lambda text: text[:50] or "empty",
)
def test_other_text_is_not_a_token(text: str) -> None:
    assert not looks_like_token(text.encode("utf-8"))


def test_without_a_grant_a_token_allows_nothing() -> None:
    for operation in OPERATIONS:
        assert not may(token(), "acme/rust", operation, is_open=True)


@pytest.mark.parametrize(
    ("scopes", "methods", "allowed"),
    [
        (("read",), None, READS),
        (("call",), None, OPERATIONS),
        (("read", "call"), None, OPERATIONS),
        (("admin",), None, frozenset()),
        (("admin", "read"), None, READS),
        ((), None, frozenset()),
        (("call",), ("SendMessage",), {"SendMessage"}),
        (("read",), ("SendMessage",), frozenset()),
        (("read",), ("SendMessage", "GetTask"), {"GetTask"}),
    ],
)
def test_scopes_and_methods_limit_the_operations(
    scopes: tuple[Scope, ...], methods: tuple[str, ...] | None, allowed: frozenset[str]
) -> None:
    assert operations_of(scopes, methods) == allowed
    granted = token(scopes=scopes, methods=methods, grants=(Grant("acme/*"),), reaches_open=True)
    assert {each for each in OPERATIONS if may(granted, "acme/rust", each)} == allowed
    # The limit holds for open agents too, which need no grant.
    assert {each for each in OPERATIONS if may(granted, "x/y", each, is_open=True)} == allowed
    assert not any(may(granted, "x/y", each) for each in OPERATIONS)
    assert reaches(principal_of(granted), "acme/rust", is_open=False) is bool(allowed)


def test_agents_limit_what_the_principal_reaches() -> None:
    limited = token(reaches_open=True, grants=(Grant("acme/*"),), agents=("acme/rust", "open/one"))
    assert may(limited, "acme/rust", "SendMessage")
    assert not may(limited, "acme/go", "SendMessage")
    assert may(limited, "open/one", "SendMessage", is_open=True)
    assert not may(limited, "open/two", "SendMessage", is_open=True)
    # The limit is not a grant.
    assert not may(limited, "open/one", "SendMessage")
    assert not is_unrestricted(principal_of(token(grants=(Grant("*"),), agents=("acme/*",))))


def test_an_owner_calls_its_own_agents_and_manages_them_with_the_scope() -> None:
    call_only = token(roles=("owner:alice",))
    assert may(call_only, "alice/private", "SendMessage")
    assert not may(call_only, "bob/private", "SendMessage")
    assert not manages(principal_of(call_only), "alice")
    full = principal_of(token(roles=("owner:alice",), scopes=("call", "admin")))
    assert manages(full, "alice")
    assert not manages(full, "bob")


def test_an_operator_reaches_everything() -> None:
    operator = token(roles=(OPERATOR,), scopes=("call", "admin"))
    assert is_unrestricted(principal_of(operator))
    assert manages(principal_of(operator), "bob")
    assert not is_unrestricted(principal_of(token(roles=(OPERATOR,), scopes=("admin",))))


def test_the_end_of_a_token() -> None:
    assert token().is_active(10**15)
    assert token(expires_ms=2000).is_active(1999)
    assert not token(expires_ms=2000).is_active(2000)
    assert not token(revoked_ms=1).is_active(0)


def test_its_repr_shows_no_digest() -> None:
    assert "ddd" not in repr(token())
