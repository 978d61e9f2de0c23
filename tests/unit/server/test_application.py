"""`Application`: mounts beside the agents."""

from collections.abc import AsyncIterator

import pytest
from tests.bindings.asgi import Http
from tests.bindings.world import HANDLE, World, open_world

from trunkline.server.http import Handler, Request, Response

AGENT = f"/api/a2a/v1/agents/{HANDLE}"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Its agent is at the root as well, so that every path belongs to something."""
    async with open_world(rest_path="/") as world:
        yield world


def named(name: bytes) -> Handler:
    async def answer(request: Request, response: Response) -> None:
        await response.answer(200, name, b" ", request.path.encode())

    return answer


async def get(world: World, path: str) -> tuple[int, bytes]:
    answer = await world.http.send(Http(method="GET", path=path))
    return answer.status, answer.body


@pytest.mark.parametrize("path", ["/own/v1", "/own/v1/", "/own/v1/x/y", "/own/v1//"])
async def test_a_mount_serves_its_prefix_and_the_paths_below(world: World, path: str) -> None:
    world.gateway.application.mount("/own/v1", named(b"own"))
    assert await get(world, path) == (200, b"own " + path.encode())


@pytest.mark.parametrize("path", ["/own/v10", "/own", "/own/v", "//", "/x/own/v1"])
async def test_a_prefix_ends_with_a_whole_segment(world: World, path: str) -> None:
    before = await get(world, path)
    world.gateway.application.mount("/own/v1", named(b"own"))
    assert await get(world, path) == before
    assert before[0] != 200


async def test_the_longest_prefix_wins_whatever_the_order(world: World) -> None:
    for prefix in ("/a/b", "/a", "/a/b/c"):
        world.gateway.application.mount(prefix, named(prefix.encode()))
    assert await get(world, "/a/x") == (200, b"/a /a/x")
    assert await get(world, "/a/b/x") == (200, b"/a/b /a/b/x")
    assert await get(world, "/a/b/c/x/y") == (200, b"/a/b/c /a/b/c/x/y")


async def test_agents_keep_their_addresses_below_a_mount(world: World) -> None:
    paths = [AGENT, f"{AGENT}/tasks/x", f"{AGENT}/agent-card.json", "/healthz"]
    before = [await get(world, path) for path in paths]
    world.gateway.application.mount("/api", named(b"own"))
    world.gateway.application.mount("/healthz/more", named(b"own"))
    assert [await get(world, path) for path in paths] == before
    assert await get(world, "/api/a2a/v1/agents") == (200, b"own /api/a2a/v1/agents")
    assert await get(world, "/healthz/more") == (200, b"own /healthz/more")


async def test_a_mount_can_be_removed_and_replaced(world: World) -> None:
    application = world.gateway.application
    before = await get(world, "/a")
    application.mount("/a", named(b"first"))
    with pytest.raises(ValueError, match="something else is mounted at /a; unmount it first"):
        application.mount("/a", named(b"second"))
    application.unmount("/a")
    assert await get(world, "/a") == before
    application.mount("/a", named(b"second"))
    assert await get(world, "/a") == (200, b"second /a")
    with pytest.raises(KeyError):
        application.unmount("/b")


@pytest.mark.parametrize("prefix", ["", "//", "a", "/a/"])
async def test_a_prefix_that_cannot_match(world: World, prefix: str) -> None:
    with pytest.raises(ValueError, match="starts with a slash and ends without one"):
        world.gateway.application.mount(prefix, named(b"own"))
