import json
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.unit.settings.documents import agent

from trunkline.app.adapters import load_agents, make_backend, make_store, resources_for
from trunkline.backends.echo.backend import EchoBackend
from trunkline.backends.python import Agent, PythonBackend
from trunkline.backends.scripted.backend import ScriptedBackend
from trunkline.model.errors import ConfigError, GatewayBug
from trunkline.ports.backend import Backend
from trunkline.ports.store import Scope
from trunkline.settings import Settings, StoreSettings, from_document
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock

TWO_AGENTS = """
from trunkline import agent

@agent
def first(turn):
    return "1"

@agent(name="The second")
def second(turn):
    return "2"
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "two_agents.py"
    file.write_text(TWO_AGENTS)
    return str(file)


def published(**agents: dict[str, Any]) -> Settings:
    handles = {handle.replace("__", "/"): keys for handle, keys in agents.items()}
    return from_document({"agents": handles}, environment={})


def python(target: str, **keys: Any) -> dict[str, Any]:
    return agent(name="", backend={"kind": "python", "target": target}, **keys)


def test_agents_that_are_no_code_need_no_loading() -> None:
    settings = published(acme__echo=agent())
    assert load_agents(settings) == (settings, {})


def test_a_handle_for_one_agent_gets_the_one_that_is_named(target: str) -> None:
    settings, code = load_agents(published(acme__rust=python(f"{target}:second")))
    assert list(settings.agents) == ["acme/rust"]
    assert code["acme/rust"].name == "The second"


def test_a_handle_for_many_becomes_all_that_are_found(target: str) -> None:
    document = {"agents": {"acme/echo": agent(), "acme/*": python(target, default=True)}}
    settings, code = load_agents(from_document(document, environment={}))
    assert list(settings.agents) == ["acme/echo", "acme/first", "acme/second"]
    assert {handle: one.name for handle, one in code.items()} == {
        "acme/first": "First",
        "acme/second": "The second",
    }
    # There is one default agent, and it is the first that was found.
    assert settings.default_agent() == "acme/first"


def test_a_handle_for_one_agent_does_not_choose_among_several(target: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_agents(published(acme__rust=python(target)))
    text = caught.value.message
    assert 'agents."acme/rust".backend.target' in text
    assert "first, second" in text
    assert ":attribute" in text


def test_two_agents_with_one_handle_are_refused(target: str) -> None:
    document = {"agents": {"acme/first": agent(), "acme/*": python(target)}}
    with pytest.raises(ConfigError, match="two agents have this handle"):
        load_agents(from_document(document, environment={}))


def test_a_target_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.py")
    with pytest.raises(ConfigError, match=r"missing\.py"):
        load_agents(published(acme__rust=python(missing)))


@pytest.mark.parametrize(
    ("kind", "store"),
    [("memory", MemoryStore), ("sqlite", SqliteStore), ("json-file", JsonFileStore)],
)
def test_stores_by_kind(
    tmp_path: Path, kind: Literal["memory", "sqlite", "json-file"], store: type
) -> None:
    settings = StoreSettings(kind=kind, path=str(tmp_path / "tasks"))
    assert type(make_store(settings, agent="a/b", clock=FakeClock())) is store


@pytest.mark.parametrize(("adopt_as", "owner"), [("", "@anonymous"), ("ci", "ci")])
async def test_tasks_of_another_program_get_an_owner(
    tmp_path: Path, adopt_as: str, owner: str
) -> None:
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}
    (tmp_path / "dA.json").write_text(json.dumps({"schemaVersion": 1, "task": task}))
    settings = StoreSettings(kind="json-file", path=str(tmp_path), adopt_as=adopt_as)
    store = make_store(settings, agent="acme/echo", clock=FakeClock())
    await store.open()
    assert await store.get(Scope("acme/echo", "", owner), "t") is not None
    await store.close()


def made(settings: Settings, handle: str, code: Agent | None) -> Backend:
    agent = settings.agents[handle]
    return make_backend(agent, resources_for(agent, settings, clock=FakeClock(), code=code))


def test_backends_by_kind(target: str) -> None:
    settings = published(
        acme__echo=agent(),
        acme__script=agent(backend={"kind": "scripted"}),
        acme__rust=python(f"{target}:first"),
    )
    settings, code = load_agents(settings)
    kinds = [
        type(made(settings, handle, code.get(handle)))
        for handle in ("acme/echo", "acme/script", "acme/rust")
    ]
    assert kinds == [EchoBackend, ScriptedBackend, PythonBackend]


def test_code_that_was_not_loaded_is_our_own_fault(target: str) -> None:
    settings = published(acme__rust=python(f"{target}:first"))
    with pytest.raises(GatewayBug, match="was not loaded"):
        made(settings, "acme/rust", None)
