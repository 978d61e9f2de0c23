"""An agent asks another one, and they are at different nodes. Either node may die."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from tests.cluster.nodes import nodes
from tests.cluster.postgres import on_postgres
from tests.routing.helpers import Helper, acts, use
from tests.routing.world import CallWorld

from trunkline.clock import SystemClock
from trunkline.engine.agent_calls import CallLimits, CallPolicy
from trunkline.model.profile import Profile
from trunkline.model.values import text_of

Kill: TypeAlias = Callable[[int], Awaitable[None]]


class Cluster:
    """Two nodes with the same agents. Each runs one turn of the helper at a time, so that the
    second of two calls goes to the other node."""

    def __init__(self, kill: Kill, step: Callable[[], Awaitable[None]]) -> None:
        self.kill = kill
        self._step = step
        self.worlds: list[CallWorld] = []
        self.helpers: list[Helper] = []

    def world(self, **options: Any) -> Any:
        helper = Helper()
        self.helpers.append(helper)
        made = CallWorld(
            {"caller": acts, "helper": helper.answers},
            published={"helper": {"profile": Profile(max_concurrency_per_node=1)}},
            **options,
        )
        self.worlds.append(made)
        return made

    async def until(self, happened: Callable[[], Awaitable[Any]]) -> Any:
        async with asyncio.timeout(20):
            while not (found := await happened()):
                await self._step()
        return found

    async def apart(self, **options: Any) -> tuple[dict[str, Any], int]:
        """A call that is under way at another node than that of its caller, node 0: the call, and
        the number of that node."""
        first = self.worlds[0]
        await use(first, "agent_call", agent="acme/helper", input="first", context="c0")
        asked: Any = {"agent": "acme/helper", "input": "second"} | options
        made = asyncio.ensure_future(use(first, "agent_call", **asked))  # noqa: TID251

        async def begun() -> Any:
            return [each for each in self.helpers if "second" in each.heard]

        (found,) = await self.until(begun)
        number = self.helpers.index(found)
        assert number == 1
        return (await made if not options.get("wait") else {"later": made}), number

    async def entries(self, node: int, count: int) -> list[dict[str, Any]]:
        async def come() -> Any:
            found = await self.worlds[node].entries("caller", "c1")
            return found if len(found) >= count else None

        await self.until(come)
        found = await self.worlds[node].entries("caller", "c1")
        assert len(found) == count
        return found


@asynccontextmanager
async def in_memory(**options: Any) -> AsyncIterator[Cluster]:
    cluster = Cluster(lambda number: made.kill(number), lambda: made.clock.advance(0.2))
    async with nodes(make=cluster.world, **options) as made:
        yield cluster


Make: TypeAlias = Callable[..., AbstractAsyncContextManager[Cluster]]


@pytest.fixture(params=["memory", "postgres"])
def make_cluster(request: pytest.FixtureRequest) -> Make:
    if request.param == "memory":
        return in_memory
    url: str = request.getfixturevalue("cleared_postgres_url")

    @asynccontextmanager
    async def on_database(**options: Any) -> AsyncIterator[Cluster]:
        cluster = Cluster(lambda number: made.kill(number), lambda: SystemClock().sleep(0.02))
        async with on_postgres(url, make=cluster.world, **options) as made:
            yield cluster

    return on_database


async def test_the_answer_comes_to_the_session_at_another_node(make_cluster: Make) -> None:
    async with make_cluster() as cluster:
        made, there = await cluster.apart()
        cluster.helpers[there].open("second")
        for node in (0, 1):
            (entry,) = await cluster.entries(node, 1)
            assert (entry["correlationId"], entry["output"]) == (
                made["correlationId"],
                "about second",
            )
        polled = await use(
            cluster.worlds[1], "agent_poll", correlationId=made["correlationId"], context="c1"
        )
        assert polled["status"] == "completed"


async def test_a_caller_that_waits_hears_of_the_answer_at_another_node(make_cluster: Make) -> None:
    async with make_cluster() as cluster:
        waiting, there = await cluster.apart(wait=True)
        cluster.helpers[there].open("second")

        async def done() -> Any:
            return waiting["later"].done()

        await cluster.until(done)
        assert waiting["later"].result()["output"] == "about second"
        assert not await cluster.worlds[0].entries("caller", "c1")


async def test_the_node_of_the_called_agent_dies(make_cluster: Make) -> None:
    async with make_cluster() as cluster:
        made, there = await cluster.apart()
        await cluster.kill(there)
        (entry,) = await cluster.entries(0, 1)
        assert entry["correlationId"] == made["correlationId"]
        assert entry["error"]["code"] == "gateway_restarted"


async def test_the_node_of_the_caller_dies(make_cluster: Make) -> None:
    policies = {"caller": CallPolicy(starts_turn=True)}
    async with make_cluster(policies=policies) as cluster:
        made, there = await cluster.apart()
        await cluster.kill(0)
        cluster.helpers[there].open("second")
        (entry,) = await cluster.entries(there, 1)
        assert (entry["correlationId"], entry["output"]) == (made["correlationId"], "about second")
        # The answer begins the next turn of the session, where it can.
        world = cluster.worlds[there]

        async def thanked() -> Any:
            session = world.turn_of("caller", context="c1").session
            told = await world.routing.sessions.transcript(session, limit=10)
            return [each for each in told if "skill_response" in text_of(each.parts)]

        (message,) = await cluster.until(thanked)
        assert message.message_id == f"resp-{made['correlationId']}"


async def test_both_agents_had_their_node_and_the_call_times_out(make_cluster: Make) -> None:
    limits = CallLimits(on_callee_crash="wait_for_timeout")
    async with make_cluster(limits=limits) as cluster:
        made = await use(
            cluster.worlds[0], "agent_call", agent="acme/helper", input="one", timeout=1500
        )
        await cluster.kill(0)
        (entry,) = await cluster.entries(1, 1)
        assert (entry["correlationId"], entry["kind"]) == (made["correlationId"], "skill_timeout")


async def test_a_session_is_ended_at_another_node(make_cluster: Make) -> None:
    async with make_cluster() as cluster:
        waiting, there = await cluster.apart(wait=True)
        world = cluster.worlds[there]
        await world.routing.sessions.end(world.turn_of("caller", context="c1").session)

        async def done() -> Any:
            return waiting["later"].done()

        await cluster.until(done)
        assert waiting["later"].result()["error"]["code"] == "session_ended"
        cluster.helpers[there].open("second")
