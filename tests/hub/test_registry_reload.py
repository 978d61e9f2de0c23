"""A reload of the configuration beside agents of the registry."""

from typing import Any

import pytest
from tests.bindings.asgi import Http
from tests.hub.registry_world import CARD, RPC, HubWorld, document, hub_world, rpc_body

from trunkline.app.reload import Reload
from trunkline.settings import Settings, from_document

CONF: dict[str, Any] = {"name": "Conf", "backend": {"kind": "echo"}}


def reload_of(world: HubWorld, **tables: Any) -> tuple[Reload, dict[str, Any]]:
    """A reload, and the file, which the test may change."""
    file = document(**tables)

    def load() -> tuple[Settings, tuple[str, ...]]:
        return from_document(file, environment={}), ()

    return Reload(world.gateway, load, local_url="https://gateway.example"), file


async def test_a_reload_leaves_agents_of_the_registry_alone() -> None:
    async with hub_world(agents={"conf/one": CONF}) as world:
        await world.create()
        reload, file = reload_of(world, agents={"conf/one": CONF})
        before = world.gateway.directory.find("acme/echo")
        done = await reload()
        assert (done.withdrawn, done.published, done.replaced, done.failed) == ((), (), (), {})
        file["agents"] = {"conf/two": CONF}
        done = await reload()
        assert (done.withdrawn, done.published) == (("conf/one",), ("conf/two",))
        assert world.gateway.directory.find("acme/echo") == before
        assert (await world.send("acme/echo")).status == 200


async def test_agents_that_were_there_at_the_start_stay_as_well() -> None:
    async with hub_world(agents={"conf/one": CONF}) as world:
        await world.create()
        # As for a process that found the agent in its store: the reload begins after it.
        reload, _ = reload_of(world, agents={"conf/one": CONF})
        assert (await reload()).withdrawn == ()
        assert (await world.send("acme/echo")).status == 200


async def test_a_reload_that_replaces_all_agents_keeps_private_ones_private() -> None:
    async with hub_world(agents={"conf/one": CONF}) as world:
        await world.create(visibility="private")
        reload, file = reload_of(world, agents={"conf/one": CONF})
        file["network"] = {"allow_private_addresses": True}
        assert "acme/echo" in (await reload()).replaced
        assert (await world.card("acme/echo")).status == 404
        assert (await world.card("acme/echo", by="dave")).status == 200
        file["server"] = {"public_url": "https://moved.example"}
        await reload()
        assert (await world.card("acme/echo")).status == 404
        card = (await world.card("acme/echo", by="dave")).json()
        assert card["supportedInterfaces"][0]["url"].startswith("https://moved.example/")


@pytest.mark.parametrize("is_off", [False, True], ids=["on", "off"])
async def test_the_default_agent_of_the_file_stays_at_the_root(is_off: bool) -> None:
    """Also one that is off, whose answer says why."""
    off = {"unavailable": "closed for repair"} if is_off else {}
    tables = {"conf/one": CONF | off}
    async with hub_world(agents=tables) as world:
        addresses = ("/.well-known/agent-card.json", CARD.format("conf/one"))
        before = [await world.http.send(Http(method="GET", path=path)) for path in addresses]
        await world.create()
        reload, file = reload_of(world, agents=tables)
        file["server"] = {"max_streams_per_principal": 7}
        done = await reload()
        assert (done.replaced, done.moved, done.failed) == ((), (), {})
        after = [await world.http.send(Http(method="GET", path=path)) for path in addresses]
        assert [each.status for each in after] == [503 if is_off else 200] * 2
        assert [each.body for each in after] == [each.body for each in before]
        unknown = await world.http.send(Http(method="GET", path=CARD.format("acme/none")))
        assert unknown.status == 404


async def test_the_file_cannot_take_a_handle_of_the_registry() -> None:
    async with hub_world(agents={"conf/one": CONF}) as world:
        await world.create()
        reload, file = reload_of(world, agents={"conf/one": CONF})
        file["agents"] = {"conf/one": CONF, "Acme/echo": CONF, "acme/echo2": CONF}
        done = await reload()
        assert done.published == ("acme/echo2",)
        assert "taken by an agent that is not in this file" in done.failed["Acme/echo"]
        unknown = await world.http.send(Http(path=RPC.format("Acme/echo"), body=rpc_body()))
        assert unknown.status == 404
        assert (await world.card("acme/echo")).json()["name"] == "echo"


async def test_the_file_may_take_the_handle_of_a_draft_which_then_cannot_be_published() -> None:
    async with hub_world(agents={"conf/one": CONF}) as world:
        draft = await world.create(status="draft")
        reload, file = reload_of(world, agents={"conf/one": CONF})
        file["agents"] = {"conf/one": CONF, "acme/echo": CONF}
        assert (await reload()).published == ("acme/echo",)
        refused = await world.call("PATCH", f"/agents/{draft['id']}", {"status": "published"})
        assert (refused.status, b"acme/echo; take it out of the file" in refused.body) == (
            409,
            True,
        )
        assert (await world.card("acme/echo")).json()["name"] == "Conf"
        file["agents"] = {"conf/one": CONF}
        assert (await reload()).withdrawn == ("acme/echo",)
        published = await world.call("PATCH", f"/agents/{draft['id']}", {"status": "published"})
        assert published.status == 200
        assert (await world.card("acme/echo")).json()["name"] == "echo"
