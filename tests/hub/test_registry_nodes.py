"""The registry at two gateways that share a store: what holds at one holds at the other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from tests.bindings.asgi import Answer
from tests.hub.registry_world import ECHO, HubWorld, made

from trunkline.background import BackgroundTasks, next_pass
from trunkline.runtime.record_changes import TRUST_S
from trunkline.testing import FakeClock, settle
from trunkline.testing.shared_store import Node, SharedStore

T = TypeVar("T")


class Pair:
    def __init__(self, clock: FakeClock, shared: SharedStore, nodes: list[Node]) -> None:
        self.clock = clock
        self.shared = shared
        self.nodes = nodes
        self.worlds: list[HubWorld] = []
        self.tasks = BackgroundTasks("test")

    @property
    def a(self) -> HubWorld:
        return self.worlds[0]

    @property
    def b(self) -> HubWorld:
        return self.worlds[1]

    async def done(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call during which time passes, for example until all nodes confirm."""
        task = self.tasks.start(call, name="call")
        while not task.done():
            await until(task.done, rounds=200)
            if not task.done():
                await self.clock.advance(0.1)
        return task.result()

    async def change(self, agent: dict[str, Any], **values: Any) -> Any:
        """At the first gateway."""
        answer = await self.done(self.a.call("PATCH", f"/agents/{agent['id']}", values))
        assert answer.status == 200, answer.body
        return answer.json()

    async def served_at_b(self) -> None:
        await until(lambda: self.b.gateway.directory.find("acme/echo") is not None)


async def until(condition: Callable[[], bool], *, rounds: int = 100_000) -> None:
    """Wait for work in threads, which the clock does not see."""
    for _ in range(rounds):
        if condition():
            return
        await next_pass()


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    @asynccontextmanager
    async def pair(*, loses_notices: bool = False) -> AsyncIterator[Pair]:
        clock = FakeClock()
        shared = SharedStore(clock, loses_notice=lambda: loses_notices)
        nodes: list[Node] = []

        def make_store(*_: Any, **__: Any) -> Node:
            nodes.append(shared.node())
            return nodes[-1]

        monkeypatch.setattr("trunkline.app.runtimes.make_store", make_store)
        monkeypatch.setattr("trunkline.app.runtimes.make_cluster", lambda _, node, **__: node)
        both = Pair(clock, shared, nodes)
        for _ in range(2):
            gateway = made(clock)
            await gateway.open()
            both.worlds.append(HubWorld(gateway, clock))
        try:
            yield both
        finally:
            await both.tasks.close()
            for world, node in zip(both.worlds, nodes, strict=True):
                node.is_cut_off = False
                await world.gateway.close()
            await settle()

    return pair


def statuses(answers: list[Answer]) -> list[int]:
    return [answer.status for answer in answers]


async def both_routes(world: HubWorld) -> list[Answer]:
    return [await world.card("acme/echo"), await world.send("acme/echo")]


@pytest.mark.parametrize("loses_notices", [False, True], ids=["heard", "deaf"])
async def test_what_is_unpublished_at_one_is_404_at_the_other_when_the_call_returns(
    pairs: Callable[..., Any], loses_notices: bool
) -> None:
    async with pairs(loses_notices=loses_notices) as pair:
        agent = await pair.done(pair.a.create())
        await pair.clock.advance(TRUST_S)
        await pair.served_at_b()
        unknown = [await pair.b.card("acme/none"), await pair.b.send("acme/none")]
        assert statuses(await both_routes(pair.b)) == [200, 200]
        for _ in range(2):
            await pair.change(agent, status="draft")
            for world in (pair.a, pair.b):
                found = await both_routes(world)
                assert [each.body for each in found] == [each.body for each in unknown]
                assert statuses(found) == [404, 404]
            await pair.change(agent, status="published")
            await pair.clock.advance(TRUST_S)
            await pair.served_at_b()
            assert statuses(await both_routes(pair.b)) == [200, 200]
        await pair.done(pair.a.call("DELETE", f"/agents/{agent['id']}"))
        assert statuses(await both_routes(pair.b)) == [404, 404]


async def test_what_becomes_private_at_one_is_private_at_the_other(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        agent = await pair.done(pair.a.create())
        await pair.clock.advance(TRUST_S)
        await pair.served_at_b()
        await pair.change(agent, visibility="private")
        assert statuses(await both_routes(pair.b)) == [404, 404]
        assert (await pair.b.card("acme/echo", by="dave")).status == 200


async def test_a_gateway_without_its_store_refuses_and_does_not_serve_from_memory(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        agent = await pair.done(pair.a.create())
        await pair.clock.advance(TRUST_S)
        await pair.served_at_b()
        pair.nodes[1].is_cut_off = True
        # The change is made while the second gateway neither hears of it nor can ask.
        await pair.change(agent, status="draft")
        assert statuses(await both_routes(pair.a)) == [404, 404]
        assert statuses(await both_routes(pair.b)) == [503, 503]
        assert (await pair.b.call("GET", "/agents")).status == 503
        pair.nodes[1].is_cut_off = False
        assert statuses(await both_routes(pair.b)) == [404, 404]


async def test_a_gateway_without_its_store_does_not_tell_which_agents_there_are(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        for slug, values in (
            ("open", {}),
            ("hidden", {"visibility": "private"}),
            ("draft", {"status": "draft"}),
        ):
            await pair.done(pair.a.create(slug=slug, **values))
        await pair.clock.advance(TRUST_S)
        await until(lambda: pair.b.gateway.directory.find("acme/hidden") is not None)
        pair.nodes[1].is_cut_off = True
        await pair.done(pair.a.create(slug="new"))
        await pair.clock.advance(TRUST_S)

        async def answers(slug: str) -> list[tuple[int, bytes]]:
            card, sent = await pair.b.card(f"acme/{slug}"), await pair.b.send(f"acme/{slug}")
            return [(card.status, card.body), (sent.status, sent.body)]

        unknown = await answers("none")
        assert {status for status, _ in unknown} == {503}
        for slug in ("open", "hidden", "draft", "new"):
            assert await answers(slug) == unknown, slug


async def test_an_agent_is_the_404_of_an_unknown_one_until_another_gateway_serves_it(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        unknown = [(each.status, each.headers, each.body) for each in await both_routes(pair.b)]
        creating = pair.tasks.start(pair.a.create(), name="create")
        seen = []
        while statuses(found := await both_routes(pair.b)) != [200, 200]:
            seen.append([(each.status, each.headers, each.body) for each in found])
            await next_pass()
            await pair.clock.advance(0.01)
        assert [each for each in seen if each != unknown] == []
        await creating


async def test_a_gateway_that_starts_later_serves_what_is_published(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        await pair.done(pair.a.create())
        await pair.done(pair.a.create(slug="draft", status="draft"))
        late = made(pair.clock)
        await late.open()
        world = HubWorld(late, pair.clock)
        pair.worlds.append(world)
        assert statuses(await both_routes(world)) == [200, 200]
        assert (await world.card("acme/draft")).status == 404


async def test_of_two_gateways_that_create_a_handle_at_once_one_is_refused(
    pairs: Callable[..., Any],
) -> None:
    async with pairs() as pair:
        body = ECHO | {"owner": "acme"}

        async def create() -> list[Answer]:
            calls = (each.call("POST", "/agents", body) for each in pair.worlds)
            return list(await asyncio.gather(*calls))

        done = await pair.done(create())
        assert sorted(statuses(done)) == [201, 409]
