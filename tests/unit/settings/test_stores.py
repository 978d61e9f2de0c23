from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made, only, refused

from trunkline.settings import effective
from trunkline.settings.show import to_toml
from trunkline.settings.stores import data_dir, operator_path, own_folder, place_of, url_of

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


URL = "postgresql://gateway:s3cret@db.example.com:5432/trunkline"
POSTGRES = {"kind": "postgres", "url": URL}


def test_a_database_is_shown_without_user_and_password() -> None:
    settings = made(store=POSTGRES)
    assert url_of(settings.store) == URL
    assert place_of(settings.store) == "postgres at postgresql://db.example.com:5432/trunkline"
    shown = to_toml(effective(settings)) + repr(settings)
    assert "s3cret" not in shown
    assert 'url = "***"' in shown


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql:///x?host=/run/pg&port=5433", "/run/pg:5433/x"),
        ("postgresql:///x", "local/x"),
        ("postgres://a:b@one:1,two:2/x?target_session_attrs=any", "one:1,two:2/x"),
        ("postgresql://[::1]:5432/x", "[::1]:5432/x"),
        ("postgresql://h?dbname=x&password=s3cret", "h/x"),
        ("postgresql://u:p%40ss%2F@h/a%20b", "h/a b"),
    ],
)
def test_forms_of_the_url_of_a_database(url: str, place: str) -> None:
    found = made(store={"kind": "postgres", "url": url}).store
    assert place_of(found) == f"postgres at postgresql://{place}"


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("mysql://u:s3cret@h/x", "expected postgresql://USER:PASSWORD@HOST:5432/DATABASE"),
        ("host=h password=s3cret", "expected postgresql://"),
        ("postgresql://u:s3cret@h", "does not name the database"),
        ("postgresql://u:s3cret@h/", "does not name the database"),
        ("postgresql://u:s3 cret@h/x", "without spaces"),
        ("postgresql://u:s3cret%@h/x", "%25 for a % itself"),
        ("postgresql://u:s3cret/@h:port/x", "percent-encoded"),
        ("postgresql://u:s3cret/x", "percent-encoded"),
    ],
)
def test_a_malformed_url_of_a_database_is_refused_without_showing_it(url: str, what: str) -> None:
    for key in ("url", "listen_url"):
        problem = only(store={**POSTGRES, key: url})
        assert problem.key == f"store.{key}"
        assert what in problem.what
        assert "cret" not in str(problem)


def test_a_url_comes_from_the_environment() -> None:
    store = {"kind": "postgres", "url": "${DB}"}
    text = str(refused({"DB": "postgresql://u:s3cret@h"}, store=store))
    assert "does not name the database" in text
    assert "s3cret" not in text
    assert '"${DB}"' in text


def test_a_url_and_the_kind_postgres_belong_together() -> None:
    problem = only(store={"kind": "postgres"})
    assert (problem.key, problem.what) == ("store.url", "missing")
    assert "postgresql://" in problem.remedy
    problem = only(store={"url": URL})
    assert problem.key == "store.url"
    assert 'set kind = "postgres"' in problem.remedy
    assert only(store={**POSTGRES, "synchronous": "normal"}).key == "store.synchronous"


def test_two_stores_never_share_a_database() -> None:
    other = {**POSTGRES, "url": URL.replace("s3cret", "other"), "prepared_statements": False}
    problem = only(agents=agents(POSTGRES, other))
    assert problem.key == 'agents."acme/1".store.url'
    assert "other" not in str(problem)


def test_the_own_files_of_a_gateway_on_postgres_have_a_folder_of_their_own(tmp_path: Path) -> None:
    placed = made(store={**POSTGRES, "path": str(tmp_path / "one")}).store
    assert own_folder(placed) == tmp_path / "one"
    assert operator_path(placed) == tmp_path / "one" / "postgres.operator"
    assert own_folder(made(store=POSTGRES).store) == data_dir()


@pytest.mark.parametrize(("beat_s", "lease_s"), [(0.1, 0.5), (2.0, 6.0), (2.5, 6.01)])
def test_a_lease_outlasts_two_beats(beat_s: float, lease_s: float) -> None:
    times = made(cluster={"beat_s": beat_s, "lease_s": lease_s}).cluster.times
    assert 2 * times.beat_s < times.trust_s < times.lease_s


def test_a_lease_that_is_too_short_is_refused_with_the_least() -> None:
    problem = only(cluster={"beat_s": 5, "lease_s": 12})
    assert (problem.key, problem.value) == ("cluster.lease_s", "12.0")
    assert "Set lease_s above 12" in problem.remedy
    assert only(cluster={"beat_s": 0}).key == "cluster.beat_s"


ON_POSTGRES = {
    "store": {"kind": "postgres", "url": "postgresql://db/trunkline"},
    "auth": {"keys": {"me": {"key": KEY}}},
    "server": {"host": "0.0.0.0", "relay": True},
}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]"])
def test_relays_on_one_database_need_an_address_for_each_other(host: str) -> None:
    server = {"host": host, "relay": True}
    found = only(**(ON_POSTGRES | {"server": server}))
    assert found.path == ("cluster", "node_url")
    assert "http://10.0.0.11:8642" in found.remedy


@pytest.mark.parametrize(
    "more",
    [
        {"cluster": {"node_url": "http://10.0.0.11:8642"}},
        {"server": {"host": "10.0.0.11", "relay": True}},
        {"server": {"host": "127.0.0.1", "relay": True}},
        {"server": {"host": "0.0.0.0"}, "agents": {"me/a": agent()}},
        {"store": {"kind": "memory"}},
    ],
)
def test_others_and_those_that_have_one_do_not(more: dict[str, Any]) -> None:
    assert made(**(ON_POSTGRES | more)).server.host


@pytest.mark.parametrize("url", ["10.0.0.11:8642", "ws://10.0.0.11", "http://a b", "http://u:p@h"])
def test_an_address_for_other_nodes_is_one_of_http(url: str) -> None:
    found = only(**(ON_POSTGRES | {"cluster": {"node_url": url}}))
    assert found.path == ("cluster", "node_url")
