"""A reload of a gateway in this process: what is applied, what is refused, and what stays."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.bindings.clients import CLIENTS, Address, Client
from tests.unit.settings.documents import KEY

from trunkline.app.gateway import Gateway, build
from trunkline.app.reload import Reload, Reloaded
from trunkline.background import BackgroundTasks
from trunkline.model.errors import ConfigError
from trunkline.settings import Settings, from_document
from trunkline.testing import FakeClock, ScriptedBackend

ONE, TWO, THREE = "acme/one", "acme/two", "acme/three"


def agent(name: str = "One", **keys: Any) -> dict[str, Any]:
    return {"name": name, "backend": {"kind": "scripted"}, **keys}


class World:
    """A gateway, and the file that it was started with."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: dict[str, Any] = {"store": {"kind": "memory"}, **document}
        self.gateway: Gateway = build(
            self._load()[0], base_url="http://127.0.0.1:1", clock=FakeClock()
        )
        self.http = Asgi(self.gateway.application)
        self.applied: list[Settings] = []
        self.reload = Reload(
            self.gateway,
            self._load,
            local_url="http://127.0.0.1:1",
            on_apply=self.applied.append,
        )

    def _load(self) -> tuple[Settings, tuple[str, ...]]:
        return from_document(self.document, environment={}), ()

    async def again(self, **changes: Any) -> Reloaded:
        """Change tables of the file, and reload it."""
        self.document |= changes
        return await self.reload()

    def client(self, handle: str = ONE, *, key: str = "") -> Client:
        own = f"/api/a2a/v1/agents/{handle}"
        return CLIENTS["jsonrpc-1.0"](self.http, key=key, address=Address(jsonrpc=own, rest=own))

    async def status(self, path: str) -> int:
        return (await self.http.send(Http(method="GET", path=path))).status

    async def card(self, handle: str) -> dict[str, Any]:
        path = f"/api/a2a/v1/agents/{handle}/agent-card.json"
        answer = await self.http.send(Http(method="GET", path=path))
        assert answer.status == 200
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def backend(self, handle: str = ONE) -> ScriptedBackend:
        (runtime,) = self.gateway.runtimes
        found = runtime.agents[handle].backend
        assert isinstance(found, ScriptedBackend)
        return found


@asynccontextmanager
async def world(agents: dict[str, Any] | None = None, **tables: Any) -> AsyncIterator[World]:
    made = World({"agents": agents or {ONE: agent()}, **tables})
    await made.gateway.runtimes.open()
    try:
        yield made
    finally:
        await made.gateway.runtimes.close()


async def state(client: Client, text: str = "say hi") -> str:
    found: str = (await client.run(text))["status"]["state"]
    return found


async def test_agents_come_go_and_change() -> None:
    async with world({ONE: agent(), TWO: agent("Two")}) as w:
        before = w.backend(ONE)
        done = await w.again(agents={ONE: agent("Newer"), THREE: agent("Three")})
        assert done == Reloaded(published=(THREE,), replaced=(ONE,), withdrawn=(TWO,), grace_s=10.0)
        assert (await w.card(ONE))["name"] == "Newer"
        assert w.backend(ONE) is not before
        assert await state(w.client(THREE)) == "TASK_STATE_COMPLETED"
        assert await w.status(f"/api/a2a/v1/agents/{TWO}/agent-card.json") == 404
        assert await w.reload() == Reloaded(grace_s=10.0)


async def test_an_unchanged_agent_is_left_alone() -> None:
    async with world({ONE: agent(), TWO: agent("Two")}) as w:
        before = w.backend(ONE)
        await w.again(agents={ONE: agent(), TWO: agent("Other")})
        assert w.backend(ONE) is before


async def test_a_running_turn_finishes_on_the_agent_as_it_was() -> None:
    tasks = BackgroundTasks("test")
    async with world() as w:
        old = w.backend()
        sending = tasks.start(state(w.client(), "wait a; say done"), name="send")
        await old.gates.reached("a")
        assert (await w.again(agents={ONE: agent("Newer")})).replaced == (ONE,)
        assert await state(w.client()) == "TASK_STATE_COMPLETED"
        assert not sending.done()
        old.gates.open("a")
        assert await sending == "TASK_STATE_COMPLETED"


async def test_the_turns_of_a_withdrawn_agent_end_by_the_grace_and_the_reload_does_not_wait() -> (
    None
):
    tasks = BackgroundTasks("test")
    async with world({ONE: agent(), TWO: agent("Two")}, server={"drain_s": 30}) as w:
        gates = w.backend(TWO).gates
        sending = tasks.start(state(w.client(TWO), "wait a; say done"), name="send")
        await gates.reached("a")
        done = await w.again(agents={ONE: agent()})
        assert (done.withdrawn, done.grace_s) == ((TWO,), 30.0)
        assert not sending.done()
        gates.open("a")
        assert await sending == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    "changes",
    [
        {"agents": {ONE: agent(nmae="x")}},
        {"agents": {}},
        {"auth": {"keys": {"alice": {"key": "short"}}}},
        {"server": {"public_url": "https://agents.example"}},
        {"nonsense": {}},
        {"agents": {ONE: agent(backend={"kind": "python", "target": "no_such_module_here"})}},
        {"server": {"card_key_path": "/no/such/key.pem"}},
    ],
)
async def test_a_file_with_a_problem_changes_nothing(
    changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        settings, backend = w.gateway.settings, w.backend()
        with pytest.raises(ConfigError) as caught:
            await w.again(**{"server": {"log_level": "debug"}, **changes})
        assert w.gateway.settings is settings
        assert w.backend() is backend
        assert w.applied == []
        assert await state(w.client()) == "TASK_STATE_COMPLETED"
        assert "the configuration is not reloaded" in caplog.text
        assert str(caught.value)


async def test_a_key_that_needs_a_restart_never_opens_the_gateway() -> None:
    """The file may be safe only with an address that the gateway does not have yet."""
    keys = {"keys": {"alice": {"key": KEY}}}
    async with world(server={"host": "0.0.0.0"}, auth=keys) as w:
        with pytest.raises(ConfigError, match=r"without a restart for server\.host") as caught:
            await w.again(server={"host": "127.0.0.1"}, auth={})
        assert "no key is configured" in str(caught.value)
        assert await w.status("/metrics") == 401


async def test_keys_are_taken_over_for_the_next_request_and_cards_say_so() -> None:
    async with world(auth={"keys": {"alice": {"key": KEY}}}) as w:
        alice, bob = w.client(key=KEY), w.client(key=KEY[::-1])
        assert await state(alice) == "TASK_STATE_COMPLETED"
        done = await w.again(auth={"keys": {"bob": {"key": KEY[::-1]}}})
        assert done.applied == ("auth.keys.bob", "auth.keys.alice")
        assert await state(bob) == "TASK_STATE_COMPLETED"
        with pytest.raises(Exception, match="API key is not known"):
            await state(alice)
        await w.again(auth={})
        assert "securitySchemes" not in await w.card(ONE)
        assert await state(w.client()) == "TASK_STATE_COMPLETED"


async def test_limits_and_addresses_of_the_server_are_taken_over() -> None:
    async with world() as w:
        keys = {"keys": {"alice": {"key": KEY}}}
        server = {"max_body_bytes": 1024, "public_url": "https://agents.example", "port": 1}
        done = await w.again(server=server, auth=keys)
        assert done.applied == (
            "server.public_url",
            "server.max_body_bytes",
            "auth.keys.alice",
        )
        assert done.needs_restart == ("server.port",)
        url = (await w.card(ONE))["supportedInterfaces"][0]["url"]
        assert url.startswith("https://agents.example/")
        with pytest.raises(Exception, match="1024"):
            await state(w.client(key=KEY), "say " + "x" * 2000)
        assert [each.server.max_body_bytes for each in w.applied] == [1024, 1024]


async def test_the_default_agent_moves_and_addresses_can_be_swapped() -> None:
    root = "/.well-known/agent-card.json"
    async with world({ONE: agent(), TWO: agent("Two")}) as w:
        assert await w.status(root) == 404
        done = await w.again(agents={ONE: agent(default=True), TWO: agent("Two")})
        assert (done.replaced, done.moved) == ((), (ONE,))
        assert await w.status(root) == 200
        done = await w.again(
            agents={ONE: agent(jsonrpc_path="/x"), TWO: agent("Two", default=True)}
        )
        assert done.failed == {}
        assert (await w.http.send(Http(method="GET", path=root))).json()["name"] == "Two"
        done = await w.again(
            agents={
                ONE: agent(default=True, jsonrpc_path="/y"),
                TWO: agent("Two", jsonrpc_path="/x"),
            }
        )
        assert done.failed == {}
        assert (await w.http.send(Http(method="GET", path=root))).json()["name"] == "One"
        # A sole agent is at the root, and a second one ends that.
        assert (await w.again(agents={ONE: agent()})).moved == (ONE,)
        assert await w.status(root) == 200
        done = await w.again(agents={ONE: agent(), TWO: agent("Two")})
        assert (done.published, done.replaced, done.moved) == ((TWO,), (), (ONE,))
        assert await w.status(root) == 404


async def test_an_agent_is_turned_off_and_on() -> None:
    async with world({ONE: agent(), TWO: agent("Two")}) as w:
        off = agent("Two", unavailable="Moving house")
        assert (await w.again(agents={ONE: agent(), TWO: off})).withdrawn == (TWO,)
        assert await w.status(f"/api/a2a/v1/agents/{TWO}/agent-card.json") == 503
        assert (await w.again(agents={ONE: agent(), TWO: agent("Two")})).published == (TWO,)
        assert await state(w.client(TWO)) == "TASK_STATE_COMPLETED"


async def test_agents_that_others_published_stay() -> None:
    async with world() as w:
        await w.gateway.directory.publish(THREE, agent("Three"))
        done = await w.again(agents={ONE: agent("Newer")}, auth={"keys": {"a": {"key": KEY}}})
        assert done.withdrawn == ()
        assert await state(w.client(THREE, key=KEY)) == "TASK_STATE_COMPLETED"
        # They follow the keys and addresses of the gateway.
        await w.again(server={"public_url": "https://agents.example"})
        url = (await w.card(THREE))["supportedInterfaces"][0]["url"]
        assert url.startswith("https://agents.example/")
        # The file takes no handle and no address away from them, and says so.
        done = await w.again(agents={ONE: agent(), THREE: agent("Mine")})
        assert "taken by an agent that is not in this file" in done.failed[THREE]
        assert (await w.card(THREE))["name"] == "Three"
        await w.gateway.directory.withdraw(THREE, grace_s=0)
        await w.gateway.directory.publish(THREE, agent("Three", jsonrpc_path="/y"))
        done = await w.again(agents={ONE: agent(), TWO: agent("Two", jsonrpc_path="/y")})
        assert list(done.failed) == [TWO]
        assert 'the agent "acme/three" is at one of its addresses' in done.failed[TWO]


async def test_an_agent_of_the_file_that_others_withdrew_is_published_again() -> None:
    async with world({ONE: agent(), TWO: agent("Two")}) as w:
        await w.gateway.directory.withdraw(TWO, grace_s=0)
        assert (await w.again(agents={ONE: agent(), TWO: agent("Two")})).published == (TWO,)
        await w.gateway.directory.withdraw(TWO, grace_s=0)
        assert (await w.again(agents={ONE: agent()})).withdrawn == ()


async def test_an_agent_that_fails_is_the_only_one_that_does(tmp_path: Any) -> None:
    (tmp_path / "no-database").mkdir()
    broken = agent("Two", store={"kind": "sqlite", "path": str(tmp_path / "no-database")})
    async with world() as w:
        done = await w.again(agents={ONE: agent("Newer"), TWO: broken, THREE: agent("Three")})
        assert (done.replaced, done.published, list(done.failed)) == ((ONE,), (THREE,), [TWO])
        assert str(tmp_path / "no-database") in done.failed[TWO]
        assert await state(w.client(THREE)) == "TASK_STATE_COMPLETED"
        # A later reload tries again.
        assert (await w.again(agents={ONE: agent("Newer"), TWO: agent("Two")})).published == (TWO,)


async def test_reloads_at_the_same_time_run_one_after_the_other() -> None:
    async with world() as w:
        w.document["agents"] = {ONE: agent("Newer"), TWO: agent("Two")}
        done = await asyncio.gather(*(w.reload() for _ in range(5)))
        assert [each.published for each in done] == [(TWO,), (), (), (), ()]


async def test_a_change_of_the_targets_replaces_the_agents_that_use_them() -> None:
    model = {"kind": "openai", "base_url": "http://127.0.0.1:9", "model": "m"}
    agents = {
        ONE: agent(backend=model | {"tools": ["remote_agent"]}),
        TWO: agent("Two", backend=model),
    }
    target = {"base_url": "https://support.example"}
    async with world(agents, targets={"support": target}) as w:
        done = await w.again(targets={"support": target, "more": target})
        assert (done.replaced, done.applied) == ((ONE,), ("targets.more",))
        done = await w.again(network={"allow_private_addresses": True})
        assert done.replaced == (ONE, TWO)
