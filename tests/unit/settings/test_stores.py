from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made, only

JSON = {"kind": "json-file", "path": "/data/tasks"}


def agents(*stores: dict[str, Any]) -> dict[str, Any]:
    return {f"acme/{n}": agent(store=store) for n, store in enumerate(stores)}


@pytest.mark.parametrize("path", ["tasks", "./tasks", "../tasks"])
def test_a_folder_of_json_files_must_be_absolute(path: str) -> None:
    problem = only(store={"kind": "json-file", "path": path})
    assert (problem.key, problem.value) == ("store.path", f'"{path}"')
    assert problem.what == "expected an absolute path of a folder"
    assert "Example: path = " in problem.remedy


def test_a_folder_of_json_files_must_be_named() -> None:
    problem = only(store={"kind": "json-file"})
    assert (problem.key, problem.what) == ("store.path", "missing")


def test_paths_are_normalised() -> None:
    assert made(store={**JSON, "path": "/data/x/../tasks//"}).store.path == "/data/tasks"
    assert made(store={**JSON, "path": "~/tasks"}).store.path == str(Path.home() / "tasks")


def test_a_path_of_an_agents_own_store_is_completed_like_the_one_of_the_gateway() -> None:
    own = made(agents=agents({"path": "own.db"})).agents["acme/0"].store
    assert own is not None
    assert own.path == str(Path.cwd() / "own.db")


@pytest.mark.parametrize("alias", ["/data/tasks", "/data/tasks/", "/data/x/../tasks"])
def test_two_stores_never_share_a_path(alias: str) -> None:
    problem = only(agents=agents(JSON, {**JSON, "path": alias}))
    assert problem.key == 'agents."acme/1".store.path'
    assert problem.what == 'is where agents."acme/0".store keeps its tasks already'
    problem = only(store=JSON, agents={**agents({**JSON, "path": alias}), "acme/b": agent()})
    assert problem.what == "is where store keeps its tasks already"


def test_a_store_that_no_agent_uses_takes_nobodys_path() -> None:
    made(store=JSON, agents=agents(JSON))
    made(agents=agents({"kind": "memory"}, {"kind": "memory"}))


def test_json_files_are_always_written_through() -> None:
    problem = only(store={**JSON, "synchronous": "normal"})
    assert problem.key == "store.synchronous"
    assert 'kind = "sqlite"' in problem.remedy


def test_tasks_are_adopted_by_somebody_who_can_call() -> None:
    keys = {"keys": {"ci": {"key": KEY}}}
    assert made(store={**JSON, "adopt_as": "ci"}, auth=keys).store.adopt_as == "ci"
    assert only(store={**JSON, "adopt_as": "bob"}, auth=keys).key == "store.adopt_as"
    assert only(store={"kind": "memory", "adopt_as": "ci"}, auth=keys).key == "store.adopt_as"
