"""The credentials with which agents call others of their gateway."""

import pytest
from tests.unit.hub.tokens_world import Node, open_nodes

from trunkline.engine.access import why_denied
from trunkline.hub.turn_credentials import NO_RIGHTS, TurnCredentials
from trunkline.model.errors import Unauthenticated
from trunkline.model.principal import ANONYMOUS, Grant, Principal
from trunkline.ports.call_path import CredentialFor
from trunkline.testing import FakeClock

OWN = "https://gateway.example/api/a2a/v1/agents/acme/secret"
GRANTS = (Grant("acme/rust"), Grant("acme/go", frozenset({"GetTask"})))


def credentials(node: Node, clock: FakeClock, caller: Principal | None) -> CredentialFor:
    made = TurnCredentials(
        node.tokens, clock=clock, is_own=lambda url: url.startswith("https://gateway.example/")
    )
    return made.of(caller, "acme/bridge")


async def rights(node: Node, token: str | None) -> Principal:
    assert token is not None
    found = await node.principal(token)
    assert found is not None
    return found


async def test_a_call_has_the_rights_of_the_caller_and_no_roles() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        alice = Principal(id="alice", tenant="t", grants=GRANTS, roles=("operator",))
        found = await rights(node, await credentials(node, clock, alice)(OWN))
        assert (found.id, found.tenant, found.roles) == ("alice", "t", ())
        assert why_denied(found, "acme/rust", "SendMessage") is None
        assert why_denied(found, "acme/go", "GetTask") is None
        assert why_denied(found, "acme/go", "SendMessage") is not None
        assert why_denied(found, "acme/other", "SendMessage") is not None


async def test_a_limited_token_stays_limited_and_ends_with_itself() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        issued = await node.tokens.issue(
            kind="key",
            name="ci",
            principal="token:ci",
            grants=GRANTS,
            scopes=("read",),
            agents=["acme/rust"],
        )
        caller = await rights(node, issued.token)
        token = await credentials(node, clock, caller)(OWN)
        found = await rights(node, token)
        assert why_denied(found, "acme/rust", "GetTask") is None
        assert why_denied(found, "acme/rust", "SendMessage") is not None
        assert why_denied(found, "acme/go", "GetTask") is not None
        await node.tokens.revoke(issued.id)
        with pytest.raises(Unauthenticated):
            await rights(node, token)


async def test_calls_to_other_gateways_and_calls_of_unknown_callers() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        alice = Principal(id="alice", grants=GRANTS)
        assert await credentials(node, clock, alice)("https://other.example/agent") is None
        for caller in (None, ANONYMOUS):
            assert await credentials(node, clock, caller)(OWN) == NO_RIGHTS


async def test_one_token_serves_a_turn_until_it_is_about_to_end() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        credential = credentials(node, clock, Principal(id="alice", grants=GRANTS))
        first = await credential(OWN)
        assert await credential(OWN) == first
        await clock.advance(280)
        second = await credential(OWN)
        assert second != first
        await clock.advance(30)
        with pytest.raises(Unauthenticated):
            await rights(node, first)
        assert (await rights(node, second)).id == "alice"


async def test_a_store_that_is_away_leaves_the_call_without_rights() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        node.store.is_cut = True
        credential = credentials(node, clock, Principal(id="alice", grants=GRANTS))
        assert await credential(OWN) == NO_RIGHTS
