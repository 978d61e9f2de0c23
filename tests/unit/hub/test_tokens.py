"""Tokens: issued once, revoked at once, replaced with an overlap."""

import asyncio

import pytest
from tests.unit.hub.tokens_world import Node, open_nodes

from trunkline.background import BackgroundTasks
from trunkline.hub.token_authenticator import NOTE_USED_S
from trunkline.hub.tokens import SERVICE, TOKEN, Issued
from trunkline.model.errors import (
    Conflict,
    InvalidRequest,
    RouteNotFound,
    StoreUnusable,
    Unauthenticated,
)
from trunkline.model.principal import Grant
from trunkline.runtime.due_work import DueWork
from trunkline.runtime.record_changes import TRUST_S
from trunkline.testing import FakeClock, settle

HOUR = 3600.0
RUST = (Grant("acme/rust"),)


async def issued(node: Node, name: str = "ci", *, expires_in_s: float | None = None) -> Issued:
    return await node.tokens.issue(
        kind="key", name=name, principal=f"token:{name}", grants=RUST, expires_in_s=expires_in_s
    )


async def refused(node: Node, token: str) -> bool:
    with pytest.raises(Unauthenticated, match="not known here"):
        await node.principal(token)
    return True


async def test_a_token_is_shown_once_and_stored_as_a_digest() -> None:
    async with open_nodes(FakeClock()) as (node,):
        new = await issued(node)
        assert new.token.startswith("tl_key_")
        assert new.token.startswith(new.prefix)
        assert new.token not in repr(new)
        principal = await node.principal(new.token)
        assert principal is not None
        assert (principal.id, principal.token, principal.grants) == ("token:ci", new.id, RUST)
        for kind in (TOKEN, SERVICE):
            for record in await node.store.inner.records(kind, limit=100):
                assert new.token.encode() not in record.body
                # Without the prefix too, and beyond the digits that lists show.
                assert new.token[13:].encode() not in record.body


async def test_after_its_first_use_a_token_costs_no_call_of_the_store() -> None:
    async with open_nodes(FakeClock()) as (node,):
        new = await issued(node)
        assert not node.knows(new.token)
        await node.principal(new.token)
        before = node.store.calls
        for _ in range(10):
            assert node.knows(new.token)
        assert node.store.calls == before


async def test_a_token_ends_at_its_time() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        new = await issued(node, expires_in_s=HOUR)
        assert new.expires_ms == clock.now_ms() + 3_600_000
        await node.principal(new.token)
        await clock.advance(HOUR - 1)
        assert node.knows(new.token)
        await clock.advance(1)
        assert not node.knows(new.token)
        assert await refused(node, new.token)


async def test_a_revoked_token_is_refused_by_the_next_request() -> None:
    async with open_nodes(FakeClock()) as (node,):
        new = await issued(node)
        await node.principal(new.token)
        await node.tokens.revoke(new.id)
        assert not node.knows(new.token)
        assert await refused(node, new.token)
        # Again is not an error.
        await node.tokens.revoke(new.id)
        found = await node.tokens.find(new.id)
        assert found.token.revoked_ms is not None


async def test_rotation_replaces_a_token_after_an_overlap() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        old = await issued(node, expires_in_s=24 * HOUR)
        await node.principal(old.token)
        await clock.advance(HOUR)
        new = await node.tokens.rotate(old.id, overlap_s=600)
        assert new.expires_ms == clock.now_ms() + 24 * 3_600_000
        old_principal, new_principal = (
            await node.principal(old.token),
            await node.principal(new.token),
        )
        assert old_principal is not None
        assert new_principal is not None
        # The tasks of the one are the tasks of the other.
        assert old_principal.id == new_principal.id
        assert new_principal.token == new.id
        await clock.advance(599)
        assert node.knows(old.token)
        await clock.advance(1)
        assert await refused(node, old.token)
        assert node.knows(new.token)
        with pytest.raises(InvalidRequest, match=new.id):
            await node.tokens.rotate(old.id)


async def test_an_overlap_does_not_prolong_a_token() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        old = await issued(node, expires_in_s=60)
        await node.tokens.rotate(old.id, overlap_s=HOUR)
        await clock.advance(60)
        assert await refused(node, old.token)


async def test_a_token_that_has_ended_is_not_rotated() -> None:
    async with open_nodes(FakeClock()) as (node,):
        old = await issued(node)
        await node.tokens.revoke(old.id)
        with pytest.raises(InvalidRequest, match="has ended"):
            await node.tokens.rotate(old.id)
        with pytest.raises(RouteNotFound):
            await node.tokens.rotate("tok_unknown")


async def test_two_active_tokens_of_one_service_need_a_rotation() -> None:
    async with open_nodes(FakeClock()) as (node,):
        first = await issued(node, "ci")
        with pytest.raises(Conflict, match="rotate it, or revoke it"):
            await issued(node, "ci")
        second = await node.tokens.rotate(first.id)
        with pytest.raises(Conflict, match="rotate it, or revoke it"):
            await issued(node, "ci")
        await node.tokens.revoke(second.id)
        await issued(node, "ci")
        # People may have many tokens.
        for _ in range(2):
            await node.tokens.issue(kind="key", name="ci", principal="user:alice")


async def test_one_of_two_that_come_at_the_same_time_gets_the_name() -> None:
    async with open_nodes(FakeClock(), 2) as (a, b):
        results = await asyncio.gather(issued(a), issued(b), return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "Issued"]


async def test_an_access_token_ends_with_its_key() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        key = await issued(node, expires_in_s=HOUR)
        access = [
            await node.tokens.issue(
                kind="access", name="ci", principal="token:ci", parent=key.id, expires_in_s=2 * HOUR
            )
            for _ in range(2)
        ]
        assert await node.principal(access[0].token) is not None
        await clock.advance(HOUR)
        assert not node.knows(access[0].token)
        assert await refused(node, access[1].token)

        key = await issued(node, "other")
        third = await node.tokens.issue(
            kind="access", name="x", principal="token:other", parent=key.id, expires_in_s=HOUR
        )
        assert await node.principal(third.token) is not None
        await node.tokens.revoke(key.id)
        assert not node.knows(third.token)
        assert await refused(node, third.token)


async def test_all_tokens_of_a_principal_are_revoked_but_one() -> None:
    async with open_nodes(FakeClock()) as (node,):
        sessions = [
            await node.tokens.issue(kind="session", name="laptop", principal="user:alice")
            for _ in range(120)
        ]
        other = await node.tokens.issue(kind="session", name="laptop", principal="user:bob")
        assert await node.tokens.revoke_all("user:alice", but=sessions[7].id) == 119
        assert await node.principal(sessions[7].token) is not None
        assert await node.principal(other.token) is not None
        assert await refused(node, sessions[0].token)
        assert await node.tokens.revoke_all("user:alice") == 1
        assert await node.tokens.revoke_all("user:alice") == 0


async def test_tokens_are_listed_by_principal_and_by_page() -> None:
    async with open_nodes(FakeClock()) as (node,):
        mine = {
            (await node.tokens.issue(kind="key", name="k", principal="user:alice")).id
            for _ in range(5)
        }
        await issued(node)
        first = await node.tokens.list(principal="user:alice", limit=3)
        rest = await node.tokens.list(principal="user:alice", after=first[-1].token.id, limit=3)
        assert {each.token.id for each in (*first, *rest)} == mine
        assert len(first) == 3
        assert len(await node.tokens.list()) == 6


async def test_only_the_tokens_that_were_used_last_are_held() -> None:
    async with open_nodes(FakeClock(), max_held=3) as (node,):
        tokens = [(await issued(node, f"s{number}")).token for number in range(4)]
        for token in tokens[:3]:
            await node.principal(token)
        await node.principal(tokens[0])
        await node.principal(tokens[3])
        assert [node.knows(token) for token in tokens] == [True, False, True, True]
        assert await node.principal(tokens[1]) is not None


async def test_a_flood_of_wrong_tokens_displaces_no_right_one() -> None:
    async with open_nodes(FakeClock(), max_held=3) as (node,):
        new = await issued(node)
        await node.principal(new.token)
        for number in range(100):
            assert await refused(node, f"tl_key_{number:040x}")
        assert node.knows(new.token)
        # The last ones are remembered, so that a repetition costs nothing.
        before = node.store.calls
        assert await refused(node, f"tl_key_{99:040x}")
        assert node.store.calls == before
        assert await refused(node, f"tl_key_{1:040x}")
        assert node.store.calls == before + 1


async def test_text_of_another_form_costs_no_call_of_the_store() -> None:
    async with open_nodes(FakeClock()) as (node,):
        before = node.store.calls
        for text in ("", "x", "tl_key_", "tl_key_" + "0" * 100_000, "tl_sess_\u00e9", "a,b"):
            assert await node.principal(text) is None
        assert node.store.calls == before


async def test_the_last_use_is_recorded_at_most_once_a_minute() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        new = await issued(node)
        assert (await node.tokens.find(new.id)).used_ms is None
        await node.principal(new.token)
        await clock.advance(10)
        assert node.knows(new.token)
        used_ms = clock.now_ms()
        before = node.store.calls
        await clock.advance(NOTE_USED_S)
        assert node.store.calls == before + 1
        assert (await node.tokens.find(new.id)).used_ms == used_ms
        before = node.store.calls
        await clock.advance(10 * NOTE_USED_S)
        assert node.store.calls == before


async def test_the_last_use_is_recorded_when_the_gateway_stops() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        new = await issued(node)
        await node.principal(new.token)
        await node.authenticator.close()
        assert (await node.tokens.find(new.id)).used_ms == clock.now_ms()


async def test_records_of_ended_tokens_are_deleted_after_a_month() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        due = DueWork(store=node.store.inner, clock=clock, kinds=node.tokens.due_kinds())
        due.start()
        ended, lasting, revoked = [
            await issued(node, "a", expires_in_s=HOUR),
            await issued(node, "b"),
            await issued(node, "c"),
        ]
        await node.principal(ended.token)
        await node.tokens.revoke(revoked.id)
        clock.jump(29 * 24 * HOUR)
        await clock.advance(2)
        assert len(await node.tokens.list()) == 3
        clock.jump(2 * 24 * HOUR)
        await clock.advance(2)
        assert [each.token.id for each in await node.tokens.list()] == [lasting.id]
        await due.close()


async def test_where_a_token_is_taken_from() -> None:
    async with open_nodes(FakeClock(), style="clawborrator") as (node,):
        session = await node.tokens.issue(kind="session", name="web", principal="user:alice")
        assert session.token.startswith("cw_sess_")
        token = session.token.encode()
        identify = node.authenticator.identify
        for headers in (
            {b"authorization": b"Bearer " + token},
            {b"authorization": b"bearer  " + token},
            {b"x-api-key": token},
            {b"cookie": b"cw_session=" + token},
            {b"cookie": b"a=b; cw_session=" + token + b"; c=d"},
        ):
            found = await identify(headers)
            assert found is not None
            assert found.id == "user:alice"
            assert node.authenticator.known(headers) is not None
        for headers in (
            {},
            {b"cookie": b"tl_session=" + token},
            {b"cookie": b"cw_session=" + token + b"; cw_session=" + token},
            {b"cookie": b"a=1, cw_session=" + token + b", cw_session=x"},
            # A credential that is stated goes before the cookie.
            {b"authorization": b"Bearer x", b"cookie": b"cw_session=" + token},
            {b"x-api-key": b"", b"cookie": b"cw_session=" + token},
            {b"authorization": b"Basic " + token},
            {b"authorization": b"Bearer " + token + b",Bearer " + token},
        ):
            assert await identify(headers) is None
            assert node.authenticator.known(headers) is None


# Several nodes.


async def test_a_token_revoked_at_one_node_is_refused_at_another_that_hears_nothing() -> None:
    clock = FakeClock()
    async with open_nodes(clock, 2) as (a, b):
        new = await issued(a)
        assert await b.principal(new.token) is not None
        assert b.knows(new.token)
        revoking = BackgroundTasks("test").start(a.tokens.revoke(new.id), name="revoke")
        await settle()
        # Memory of the other node may be trusted for a while, and the call waits for that.
        assert not revoking.done()
        await clock.advance(TRUST_S)
        await revoking
        assert not b.knows(new.token)
        assert await refused(b, new.token)


async def test_a_node_cut_off_from_the_store_gives_no_access_from_memory() -> None:
    clock = FakeClock()
    async with open_nodes(clock, 2) as (a, b):
        new = await issued(a)
        assert await b.principal(new.token) is not None
        b.store.is_cut = True
        revoking = BackgroundTasks("test").start(a.tokens.revoke(new.id), name="revoke")
        await clock.advance(TRUST_S)
        await revoking
        assert not b.knows(new.token)
        # `Access` answers this with 503.
        with pytest.raises(StoreUnusable):
            await b.principal(new.token)
        b.store.is_cut = False
        assert await refused(b, new.token)


async def test_a_look_up_that_a_revocation_overtakes_is_not_held() -> None:
    clock = FakeClock()
    async with open_nodes(clock) as (node,):
        new = await issued(node)

        async def revoke() -> None:
            await node.tokens.revoke(new.id)

        node.store.after_call = revoke
        # The store had answered before the token was revoked.
        assert await node.principal(new.token) is not None
        assert not node.knows(new.token)
        assert await refused(node, new.token)


async def test_a_change_of_grants_is_seen_by_the_next_request() -> None:
    async with open_nodes(FakeClock()) as (node,):
        new = await issued(node)
        await node.principal(new.token)
        await node.tokens.grants.give("acme/go", "token:other", methods=None, by="user:acme")
        assert node.knows(new.token)
        await node.tokens.grants.give("acme/go", "token:ci", methods=["GetTask"], by="user:acme")
        assert not node.knows(new.token)
        principal = await node.principal(new.token)
        assert principal is not None
        assert principal.grants == (*RUST, Grant("acme/go", frozenset({"GetTask"})))
        await node.tokens.grants.take("acme/go", "token:ci")
        principal = await node.principal(new.token)
        assert principal is not None
        assert principal.grants == RUST


async def test_an_access_token_of_an_access_token_ends_with_the_key_too() -> None:
    async with open_nodes(FakeClock()) as (node,):
        tokens = [await issued(node)]
        for _ in range(3):
            parent = tokens[-1].id
            tokens.append(
                await node.tokens.issue(
                    kind="access", name="turn", principal="token:ci", parent=parent
                )
            )
        assert await node.principal(tokens[-1].token) is not None
        await node.tokens.revoke(tokens[0].id)
        assert not node.knows(tokens[-1].token)
        for token in tokens:
            assert await refused(node, token.token)
