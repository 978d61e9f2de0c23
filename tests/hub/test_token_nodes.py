"""Tokens at two gateways that share a store: what is revoked at one is refused at the other."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.hub import test_registry_nodes

from trunkline.runtime.record_changes import TRUST_S

pairs = test_registry_nodes.pairs


async def with_key(pair: Any, **agent: Any) -> Any:
    """An agent that both serve, and a key that the second one holds in memory."""
    await pair.done(pair.a.create(**agent))
    await pair.clock.advance(TRUST_S)
    await pair.served_at_b()
    new = {"name": "ci", "open": True}
    return (await pair.done(pair.a.call("POST", "/tokens", new))).json()


@pytest.mark.parametrize("loses_notices", [False, True], ids=["heard", "deaf"])
async def test_a_token_revoked_at_one_is_refused_at_the_other_when_the_call_returns(
    pairs: Callable[..., Any], loses_notices: bool
) -> None:
    async with pairs(loses_notices=loses_notices) as pair:
        key = await with_key(pair)
        for world in (pair.a, pair.b):
            assert (await world.send("acme/echo", by=key["token"])).status == 200
        revoked = await pair.done(pair.a.call("DELETE", f"/tokens/{key['id']}"))
        assert revoked.status == 204
        for world in (pair.a, pair.b):
            assert (await world.send("acme/echo", by=key["token"])).status == 401


async def test_a_grant_taken_at_one_is_gone_at_the_other_when_the_call_returns(
    pairs: Callable[..., Any],
) -> None:
    async with pairs(loses_notices=True) as pair:
        key = await with_key(pair, visibility="private")
        row = (await pair.a.call("GET", "/agents/by-handle/acme/echo")).json()
        path = f"/agents/{row['id']}/grants/token:ci"
        assert (await pair.done(pair.a.call("PUT", path, {}))).status == 200
        await pair.clock.advance(TRUST_S)
        assert (await pair.b.send("acme/echo", by=key["token"])).status == 200
        assert (await pair.done(pair.a.call("DELETE", path))).status == 204
        assert (await pair.b.send("acme/echo", by=key["token"])).status == 404


async def test_a_gateway_without_its_store_refuses_within_a_second(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        key = await with_key(pair)
        assert (await pair.b.send("acme/echo", by=key["token"])).status == 200
        pair.nodes[1].is_cut_off = True
        await pair.clock.advance(TRUST_S)
        answer = await pair.b.call("GET", "/tokens", by=key["token"])
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
        revoked = await pair.done(pair.a.call("DELETE", f"/tokens/{key['id']}"))
        assert revoked.status == 204
        assert (await pair.b.call("GET", "/tokens", by=key["token"])).status == 503
        pair.nodes[1].is_cut_off = False
        await pair.clock.advance(TRUST_S)
        assert (await pair.b.send("acme/echo", by=key["token"])).status == 401
