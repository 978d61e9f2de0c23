"""Which calls and sessions a caller may look at, page by page."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.routing.world import ALICE, BOB, CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.model.errors import Conflict, InvalidParams, PermissionDenied, RouteNotFound
from trunkline.model.principal import EVERYTHING, OPERATOR, Grant, Principal
from trunkline.model.values import text_of
from trunkline.ports.call_views import CallFilter, SessionFilter, SessionName
from trunkline.ports.store import OperatorQuery

BOSS = Principal(id="boss", roles=(OPERATOR,))
READER = Principal(id="alice", grants=(Grant("acme/caller", frozenset({"GetTask"})),))
ELSEWHERE = Principal(id="alice", grants=(Grant("acme/helper"),))
LIMITED = Principal(id="alice", grants=EVERYTHING, within=(Grant("acme/helper"),))


async def helper(turn: Turn) -> str:
    if turn.text == "slowly":
        await turn.canceled()
    return f"about {turn.text}"


async def asks(turn: Turn) -> str:
    made = await turn.call("acme/helper", turn.text, wait=False)
    return str(made["correlationId"])


async def asked(w: CallWorld, text: str, *, by: Principal = ALICE, context: str = "c1") -> str:
    """The id of the call that was made."""
    await w.clock.advance(1)
    task = await w.send("caller", text, context=context, principal=by)
    return text_of(task.artifacts[0].parts)


def world() -> Any:
    return calling({"caller": asks, "helper": helper})


async def calls(w: CallWorld, by: Principal, **wanted: Any) -> list[str]:
    found, after = await w.routing.call_list.page(CallFilter(**wanted), by=by)
    assert after == ""
    return [each.id for each in found]


async def sessions(w: CallWorld, by: Principal, **wanted: Any) -> list[tuple[str, str, str]]:
    found, after = await w.routing.session_list.page(SessionFilter(**wanted), by=by)
    assert after == ""
    return [(each.agent, each.principal, each.context_id) for each in found]


async def test_everyone_sees_their_own_calls_and_operators_see_all() -> None:
    async with world() as w:
        first, second = await asked(w, "one"), await asked(w, "slowly", by=BOB)
        assert await calls(w, ALICE) == [first]
        assert await calls(w, BOB) == [second]
        assert await calls(w, BOSS) == [second, first]
        assert await calls(w, ALICE, principal="bob") == []
        assert await calls(w, BOSS, principal="bob") == [second]
        assert await calls(w, BOSS, status="pending") == [second]
        assert await calls(w, BOSS, agent="acme/caller", callee="acme/helper") == [second, first]
        assert await calls(w, BOSS, agent="acme/helper") == []


async def test_a_call_of_another_caller_is_as_unknown_as_one_that_does_not_exist() -> None:
    async with world() as w:
        id = await asked(w, "one")
        found = await w.routing.call_list.find(id, by=ALICE)
        assert (found.status, found.result["output"]) == ("completed", "about one")
        assert (found.agent, found.callee, found.tool) == (
            "acme/caller",
            "acme/helper",
            "agent_call",
        )
        texts = set[str]()
        for by, named in ((BOB, id), (BOB, "no-such-call"), (ELSEWHERE, id), (LIMITED, id)):
            with pytest.raises(RouteNotFound) as refused:
                await w.routing.call_list.find(named, by=by)
            texts.add(str(refused.value))
        assert len(texts) == 1
        assert (await w.routing.call_list.find(id, by=BOSS)).id == id


async def test_calls_come_in_pages_that_miss_nothing() -> None:
    async with world() as w:
        made = [await asked(w, str(number)) for number in range(7)]
        found, after = list[str](), ""
        for size in (2, 2, 2, 2):
            wanted = CallFilter(limit=size, after=after)
            page, after = await w.routing.call_list.page(wanted, by=ALICE)
            found += [each.id for each in page]
        assert found == made[::-1]
        assert after == ""


async def test_everyone_sees_their_own_sessions_and_operators_see_all() -> None:
    async with world() as w:
        await asked(w, "one")
        await asked(w, "two", by=BOB)
        await asked(w, "three", context="c2")
        own = [("acme/caller", "alice", "c2"), ("acme/caller", "alice", "c1")]
        assert await sessions(w, ALICE, agent="acme/caller") == own
        every = await sessions(w, BOSS, agent="acme/caller")
        assert every == [own[0], ("acme/caller", "bob", "c1"), own[1]]
        assert await sessions(w, BOSS, agent="acme/caller", principal="bob") == [every[1]]
        assert await sessions(w, ALICE, principal="bob") == []
        assert await sessions(w, ELSEWHERE, agent="acme/caller") == []
        assert await sessions(w, LIMITED, agent="acme/caller") == []
        assert await sessions(w, ALICE, agent="acme/nobody") == []


async def test_sessions_come_in_pages_that_miss_nothing() -> None:
    async with world() as w:
        for number in range(5):
            await asked(w, "one", context=f"c{number}")
        found, after = list[str](), ""
        for size in (2, 2, 2):
            wanted = SessionFilter(agent="acme/caller", limit=size, after=after)
            page, after = await w.routing.session_list.page(wanted, by=ALICE)
            found += [each.context_id for each in page]
        assert (found, after) == (["c4", "c3", "c2", "c1", "c0"], "")
        with pytest.raises(InvalidParams):
            await w.routing.session_list.page(SessionFilter(after="x"), by=ALICE)


async def test_a_session_of_which_only_entries_are_left_is_listed() -> None:
    async with world() as w:
        await asked(w, "one")
        await until(lambda: w.entries("caller", "c1"))
        await w.store.prune("acme/caller", limit=10)
        assert not (await w.store.list_all(OperatorQuery(agent="acme/caller"))).tasks
        (view,), _ = await w.routing.session_list.page(SessionFilter(agent="acme/caller"), by=ALICE)
        assert (view.tasks, view.entries, view.context_id) == (0, 1, "c1")
        (message,) = await w.routing.session_list.transcript(
            SessionName(key=view.key), limit=10, by=ALICE
        )
        assert "about one" in text_of(message.parts)
        assert await sessions(w, BOSS, agent="acme/caller") == [("acme/caller", "alice", "c1")]
        assert await sessions(w, BOB, agent="acme/caller") == []


async def key_of(w: CallWorld, by: Principal = ALICE) -> str:
    """The key of the only session of the caller with the agent that asks."""
    (view,), _ = await w.routing.session_list.page(SessionFilter(agent="acme/caller"), by=by)
    return view.key


async def first_text(w: CallWorld, name: SessionName, by: Principal) -> str:
    messages = await w.routing.session_list.transcript(name, limit=10, by=by)
    return text_of(messages[0].parts)


async def test_a_session_of_another_caller_is_as_unknown_as_one_that_does_not_exist() -> None:
    async with world() as w:
        await asked(w, "one")
        await asked(w, "two", by=BOB)
        own, other = await key_of(w), await key_of(w, BOB)
        assert await first_text(w, SessionName(key=own), ALICE) == "one"
        assert await first_text(w, SessionName(key=other), BOSS) == "two"
        texts = set[str]()
        for by, name in (
            (ALICE, SessionName(key=other)),
            (ALICE, SessionName(key=other, principal="bob")),
            (ELSEWHERE, SessionName(key=own)),
            (LIMITED, SessionName(key=own)),
            (ALICE, SessionName(key="agent:caller:a2a:c9")),
            (ALICE, SessionName(key=own.replace("caller", "helper"))),
            (ALICE, SessionName(key=own, agent="acme/helper")),
            (ALICE, SessionName(key=own, tenant="acme")),
            (ALICE, SessionName(key="")),
        ):
            with pytest.raises(RouteNotFound) as refused:
                await first_text(w, name, by)
            texts.add(str(refused.value))
        assert len(texts) == 1


async def test_an_operator_says_whose_session_is_meant_where_several_have_the_key() -> None:
    async with world() as w:
        agent = w.main.agents["acme/caller"]
        agent.profile = replace(agent.profile, session_key="literal")
        await asked(w, "one")
        await asked(w, "two", by=BOB)
        key = await key_of(w)
        assert key == await key_of(w, BOB)
        assert await first_text(w, SessionName(key=key), BOB) == "two"
        with pytest.raises(Conflict, match="acme/caller of alice, acme/caller of bob"):
            await first_text(w, SessionName(key=key), BOSS)
        assert await first_text(w, SessionName(key=key, principal="bob"), BOSS) == "two"


async def test_an_ended_session_is_gone_until_it_begins_anew() -> None:
    async with world() as w:
        await asked(w, "slowly")
        found, name = w.routing.session_list, SessionName(key=await key_of(w))
        await w.clock.advance(1)
        with pytest.raises(PermissionDenied):
            await found.end(name, by=READER)
        with pytest.raises(RouteNotFound):
            await found.end(name, by=BOB)
        assert await found.end(name, by=ALICE) == 1
        assert await sessions(w, ALICE, agent="acme/caller") == []
        with pytest.raises(RouteNotFound):
            await found.end(name, by=ALICE)
        await asked(w, "again")
        (view,), _ = await found.page(SessionFilter(agent="acme/caller"), by=ALICE)
        assert view.tasks == 1
        assert await found.end(SessionName(key=view.key, principal="alice"), by=BOSS) == 0
