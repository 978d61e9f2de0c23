"""The tokens by which programs use the tools of their turns, on the fake clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.routing.world import ALICE, BOB, CallWorld, calling, until

from trunkline.backends.python import Turn
from trunkline.config.secret import Secret
from trunkline.engine.agent_calls import CallRefused
from trunkline.model.errors import PermissionDenied, StoreUnusable, Unauthenticated
from trunkline.model.principal import Principal
from trunkline.ports.session_entries import SessionRef
from trunkline.ports.store import Scope
from trunkline.ports.tools import LentTools
from trunkline.routing.tool_tokens import TOOL_TOKEN, ToolAddress

BOTH = ("agent_call", "agent_poll")


class Program:
    """An agent that holds its tools until it is told to end its turn."""

    def __init__(self, *, tools: tuple[str, ...] = BOTH, token: Secret | None = None) -> None:
        self.world: CallWorld | None = None
        self.tools = tools
        self.token = token
        self.lent: list[LentTools | None] = []
        self.may_end = asyncio.Event()

    async def __call__(self, turn: Turn) -> str:
        assert self.world is not None
        tokens = self.world.routing.tool_tokens
        async with tokens.lend(turn._request, self.tools, token=self.token) as lent:
            self.lent.append(lent)
            await self.may_end.wait()
        return "done"


async def researcher(turn: Turn) -> Any:
    return {"output": f"found: {turn.text}", "confidence": 0.9}


@asynccontextmanager
async def running(
    program: Program, *, principal: Principal = ALICE, **options: Any
) -> AsyncIterator[tuple[CallWorld, str]]:
    """A turn of the program under way in the context c1, and its token."""

    async def run(turn: Turn) -> str:
        return await program(turn)

    async with calling({"caller": run, "researcher": researcher}, **options) as world:
        program.world = world
        world.routing.tool_tokens.address = ToolAddress(url="http://127.0.0.1:1/tools")
        yield world, await begun(world, program, principal=principal)
        program.may_end.set()


async def begun(world: CallWorld, program: Program, *, principal: Principal = ALICE) -> str:
    count = len(program.lent)
    await world.send("caller", "go", context="c1", principal=principal, now=True)

    async def lent() -> list[LentTools | None]:
        return program.lent[count:]

    (found,) = await until(lent)
    assert found is not None
    return str(found.token.reveal())


async def use(world: CallWorld, token: str, **arguments: Any) -> dict[str, Any]:
    tools = await world.routing.tool_tokens.find(token)
    given = {"agent": "acme/researcher", "input": "the moon", "wait": True}
    return await tools.call("agent_call", given | arguments)


async def is_known(world: CallWorld, token: str) -> bool:
    try:
        await world.routing.tool_tokens.find(token)
    except Unauthenticated:
        return False
    return True


async def test_a_program_calls_in_the_name_and_the_session_of_its_turn() -> None:
    async with running(Program(), principal=BOB) as (world, token):
        assert (await use(world, token))["output"] == "found: the moon"
        made = await use(world, token, wait=False)
        (entry,) = await until(lambda: world.entries("caller", "c1", BOB))
        assert (made["status"], entry["correlationId"]) == ("pending", made["correlationId"])
        calls = [record.call for record in await world.calls()]
        assert {(call.principal.id, call.session.context_id) for call in calls} == {("bob", "c1")}


async def test_a_token_ends_a_minute_after_its_turn() -> None:
    program = Program()
    async with running(program) as (world, token):
        await world.clock.advance(10)
        program.may_end.set()
        await until(lambda: ended(world))
        await world.clock.advance(59.9)
        assert await is_known(world, token)
        await world.clock.advance(0.1)
        assert not await is_known(world, token)
        await world.clock.advance(2)
        assert not await world.store.records(TOOL_TOKEN, limit=10)


async def ended(world: CallWorld) -> bool:
    return not world.main.runs.running


async def test_a_token_lasts_as_long_as_its_turn() -> None:
    async with running(Program()) as (world, token):
        for _ in range(4):
            await world.clock.advance(30)
            assert await is_known(world, token)


async def test_a_token_ends_a_minute_after_its_node_was_killed() -> None:
    async with running(Program()) as (world, token):
        await world.routing.tool_tokens._tasks.close()
        await world.clock.advance(59)
        assert await is_known(world, token)
        await world.clock.advance(2)
        assert not await is_known(world, token)


async def test_a_token_ends_with_its_session_although_the_turn_goes_on() -> None:
    async with running(Program()) as (world, token):
        session = SessionRef(Scope("acme/caller", "", "alice"), "c1")
        assert await is_known(world, token)
        await world.routing.sessions.end(session)
        assert not await is_known(world, token)
        # The turn renews nothing that is gone.
        await world.clock.advance(40)
        assert not await is_known(world, token)


async def test_the_end_of_another_session_ends_no_token() -> None:
    async with running(Program()) as (world, token):
        await world.routing.sessions.end(SessionRef(Scope("acme/caller", "", "alice"), "c2"))
        await world.routing.sessions.end(SessionRef(Scope("acme/caller", "", "bob"), "c1"))
        assert await is_known(world, token)


@pytest.mark.parametrize(
    "changed",
    [
        lambda token: token[:-1] + ("0" if token[-1] != "0" else "1"),
        lambda token: token.upper(),
        lambda token: token + "0",
        lambda token: token[:-1],
        lambda token: token + "\n",
        lambda token: f" {token}",
        lambda _: "",
        lambda _: "tl_tool_" + "0" * 40,
        lambda _: "tl_tool_" + "é" * 40,
        lambda _: "x" * 100_000,
    ],
    ids=[
        "another-digit",
        "upper-case",
        "longer",
        "shorter",
        "line-feed",
        "blank",
        "empty",
        "unknown",
        "not-ascii",
        "endless",
    ],
)
async def test_a_token_that_was_changed_is_refused(changed: Any) -> None:
    async with running(Program()) as (world, token):
        assert not await is_known(world, changed(token))


async def test_a_program_cannot_name_another_session() -> None:
    async with running(Program()) as (world, token):
        with pytest.raises(CallRefused) as refused:
            await use(world, token, returnTo="agent:caller:a2a:c2")
        assert (refused.value.code, refused.value.argument) == ("return_to_refused", "returnTo")
        assert token not in str(refused.value)
        assert "c2" not in str(refused.value)


async def test_a_program_sees_no_call_of_another_session() -> None:
    program = Program()
    async with running(program) as (world, token):
        made = await use(world, token, wait=False)
        await world.send("caller", "go", context="c2", now=True)

        async def second() -> list[Any]:
            return program.lent[1:]

        (other,) = await until(second)
        tools = await world.routing.tool_tokens.find(other.token.reveal())
        for name in ("taskId", "correlationId"):
            with pytest.raises(CallRefused) as refused:
                await tools.call("agent_poll", {name: made[name]})
            assert refused.value.code == "not_found"
        own = await world.routing.tool_tokens.find(token)
        assert (await own.call("agent_poll", {"taskId": made["taskId"]}))["status"] == "completed"


async def test_a_program_has_only_the_tools_that_its_agent_was_given() -> None:
    async with running(Program(tools=("agent_poll",))) as (world, token):
        tools = await world.routing.tool_tokens.find(token)
        assert [each.name for each in tools.definitions] == ["agent_poll"]
        with pytest.raises(PermissionDenied):
            await tools.call("agent_call", {"agent": "acme/researcher", "input": "x"})


async def test_a_token_of_an_earlier_turn_counts_again_in_a_later_one() -> None:
    program = Program()
    async with running(program) as (world, token):
        program.may_end.set()
        await until(lambda: ended(world))
        await world.clock.advance(61)
        assert not await is_known(world, token)
        program.token, program.may_end = Secret(token), asyncio.Event()
        assert await begun(world, program) == token
        assert (await use(world, token))["output"] == "found: the moon"


async def test_every_node_that_shares_the_store_knows_a_token() -> None:
    async with (
        running(Program(), principal=BOB) as (world, token),
        calling(
            {"researcher": researcher}, store=world.store, clock=world.clock, node="other"
        ) as other,
    ):
        tools = await other.routing.tool_tokens.find(token)
        assert [each.name for each in tools.definitions] == [*BOTH]
        answer = await use(other, token)
        assert answer["output"] == "found: the moon"
        (record,) = await world.calls()
        assert record.call.session.scope == Scope("acme/caller", "", "bob")
        await world.routing.sessions.end(record.call.session)
        assert not await is_known(other, token)


async def test_the_store_has_no_token_and_no_text_shows_one() -> None:
    program = Program()
    async with running(program) as (world, token):
        (record,) = await world.store.records(TOOL_TOKEN, limit=10)
        secret = token.removeprefix("tl_tool_")
        assert secret not in f"{record.key}{record.body!r}{record.tags}"
        assert secret not in f"{program.lent[0]!r} {program.lent[0]}"


async def test_a_turn_whose_token_cannot_be_stored_goes_on_without_tools(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = Program()
    async with running(program) as (world, _):

        async def fails(*_: object) -> None:
            raise StoreUnusable("the disk is full")

        program.may_end.set()
        monkeypatch.setattr(world.store, "change", fails)
        await world.send("caller", "go", context="c2", now=True)
        await until(lambda: lent_nothing(program))
        assert "gets no tools" in caplog.text


async def lent_nothing(program: Program) -> bool:
    return program.lent[-1] is None


async def test_nothing_is_lent_where_nothing_listens() -> None:
    program = Program()
    async with running(program) as (world, _):
        world.routing.tool_tokens.address = None
        await world.send("caller", "go", context="c2", now=True)
        await until(lambda: lent_nothing(program))
