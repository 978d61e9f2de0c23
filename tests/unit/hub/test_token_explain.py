"""Why a call with a token is allowed or refused."""

import pytest
from msgspec.structs import replace

from trunkline.hub.token_explain import AgentFacts, Explanation, explain
from trunkline.hub.token_requests import view_of
from trunkline.hub.token_values import Token, principal_of
from trunkline.model.principal import Grant

NOW = 10_000
TOKEN = Token(
    id="tok_1",
    kind="key",
    name="ci",
    principal="token:ci",
    prefix="tl_key_012345",
    digest="d" * 64,
    created_ms=1000,
    grants=(Grant("acme/echo"),),
)
OPEN = AgentFacts(handle="acme/echo", is_published=True, status="published", is_open=True)
PRIVATE = AgentFacts(handle="acme/secret", is_published=True, status="published", is_private=True)


def explained(
    token: Token, agent: AgentFacts | None = OPEN, *, has_ended_parent: bool = False
) -> Explanation:
    return explain(
        token,
        view_of(token, now_ms=NOW),
        principal_of(token),
        agent,
        handle="acme/echo" if agent is None else agent.handle,
        operation="SendMessage",
        has_ended_parent=has_ended_parent,
        now_ms=NOW,
    )


@pytest.mark.parametrize(
    ("token", "agent", "status", "reason"),
    [
        (TOKEN, OPEN, 200, "allowed"),
        (replace(TOKEN, expires_ms=NOW), OPEN, 401, "token_expired"),
        (replace(TOKEN, revoked_ms=1), OPEN, 401, "token_revoked"),
        (TOKEN, None, 404, "unknown_agent"),
        (TOKEN, replace(OPEN, is_published=False, status="draft"), 404, "not_published"),
        (TOKEN, PRIVATE, 404, "private_agent"),
        (replace(TOKEN, grants=(Grant("acme/*"),)), PRIVATE, 200, "allowed"),
        (replace(TOKEN, grants=(Grant("acme/*"),), agents=("x/y",)), PRIVATE, 404, "private_agent"),
        (replace(TOKEN, grants=()), OPEN, 403, "agent_not_granted"),
        (replace(TOKEN, scopes=("read",)), OPEN, 403, "operation_not_granted"),
        (replace(TOKEN, grants=(), reaches_open=True), OPEN, 200, "allowed"),
    ],
)
def test_the_reason(token: Token, agent: AgentFacts | None, status: int, reason: str) -> None:
    found = explained(token, agent)
    assert (found.status, found.reason, found.allowed) == (status, reason, status == 200)


def test_a_token_ends_with_the_one_that_it_was_given_for() -> None:
    found = explained(TOKEN, has_ended_parent=True)
    assert (found.status, found.reason) == (401, "parent_ended")


def test_the_text_tells_limits_from_rights() -> None:
    read = explained(replace(TOKEN, scopes=("read",)))
    assert read.text.endswith("but the token is limited to scopes read.")
    few = explained(replace(TOKEN, grants=(Grant("acme/echo", frozenset({"GetTask"})),)))
    assert few.text == "The grants of token:ci for acme/echo are without SendMessage."
    assert explained(replace(TOKEN, grants=())).text == "Nothing grants acme/echo to token:ci."
