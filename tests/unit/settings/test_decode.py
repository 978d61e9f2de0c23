from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made, only, problems, refused

from trunkline.backends.echo import EchoBackend
from trunkline.backends.python.settings import PythonBackend
from trunkline.settings import AgentSettings, InvalidSettings, Settings, demo
from trunkline.settings.load import check
from trunkline.settings.server import ServerSettings


def test_defaults_need_nothing_but_an_agent() -> None:
    settings = made()
    assert settings.server == ServerSettings()
    assert settings.server.max_body_bytes == 10 * 1024 * 1024
    assert settings.server.port == 8642
    assert settings.store.kind == "sqlite"
    assert settings.agents["acme/echo"].backend == EchoBackend()


def test_numbers_without_a_fraction_are_numbers() -> None:
    assert made(server={"heartbeat_s": 5}).server.heartbeat_s == 5.0


@pytest.mark.parametrize(
    ("section", "keys", "expected"),
    [
        ("server", {"port": 70000}, "server.port = 70000: expected a whole number <= 65535."),
        ("server", {"port": -1}, "server.port = -1: expected a whole number >= 0."),
        ("server", {"port": "x"}, 'server.port = "x": expected a whole number, got a text.'),
        ("server", {"heartbeat_s": 0}, "server.heartbeat_s = 0: expected a number > 0.0."),
        ("server", {"heartbeat_s": float("inf")}, "server.heartbeat_s = inf: expected a number."),
        ("server", {"drain_s": float("nan")}, "server.drain_s = nan: expected a number."),
        ("server", {"log_requests": 1}, "server.log_requests = 1: expected true or false"),
        ("server", {"max_body_bytes": 5}, "server.max_body_bytes = 5: expected a whole number"),
        ("server", {"drain_s": -1}, "server.drain_s = -1: expected a number >= 0"),
        ("store", {"path": 1}, "store.path = 1: expected a text, got a whole number."),
    ],
)
def test_a_misfit_names_key_value_and_what_is_expected(
    section: str, keys: dict[str, Any], expected: str
) -> None:
    assert str(only(**{section: keys})).startswith(expected)


def test_a_misfit_says_what_the_key_is_for_and_its_default() -> None:
    assert only(server={"port": 70000}).remedy == (
        "Port to listen on; 0 chooses a free port. Default: 8642."
    )


def test_a_choice_lists_the_choices_and_guesses() -> None:
    problem = only(store={"kind": "sqlit"})
    assert problem.what == 'expected one of "sqlite", "json-file", "memory", "postgres"'
    assert problem.remedy.startswith('Did you mean "sqlite"?')


def test_an_unknown_key_gets_a_guess_or_the_known_ones() -> None:
    problem = only(server={"prot": 1})
    assert (problem.key, problem.what) == ("server.prot", "unknown key")
    assert problem.remedy == 'Did you mean "port"?'
    assert only(server={"zzz": 1}).remedy.startswith("Known here: host, port,")


def test_an_unknown_section_gets_a_guess() -> None:
    assert only(sever={}).remedy.startswith('Did you mean "server"?')


def test_keys_of_lists_are_named_by_position() -> None:
    problem = only(agents={"acme/echo": agent(skills=[{"id": "a"}, {"id": "b", "nme": 1}])})
    assert problem.key == 'agents."acme/echo".skills[1].nme'


def test_a_missing_backend_is_shown_by_example() -> None:
    problem = only(agents={"acme/echo": {"name": "Echo"}})
    assert problem.key == 'agents."acme/echo".backend'
    assert problem.what == "missing"
    assert '{ kind = "echo" }' in problem.remedy
    assert 'kinds are "echo", "python", ' in problem.remedy


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ({"kind": "pyton"}, 'backend.kind = "pyton": expected one of "echo", "python", "scripted"'),
        ({}, 'backend.kind: expected one of "echo", "python", "scripted"'),
        ("echo", 'backend = "echo": expected a table.'),
        ({"kind": "python"}, "backend.target: missing."),
        ({"kind": "echo", "delay": 1}, "backend.delay: unknown key."),
    ],
)
def test_a_backend_that_is_none(backend: object, expected: str) -> None:
    problem = only(agents={"acme/echo": agent(backend=backend)})
    assert str(problem).startswith(f'agents."acme/echo".{expected}')


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"server": 1}, "server = 1: expected a table."),
        ({"agents": []}, "agents = ***: expected a table of tables."),
        ({"agents": {"acme/echo": agent(skills={})}}, "expected a list of tables."),
        ({"agents": {"acme/echo": agent(skills=["ask"])}}, '.skills[0] = "ask": expected a table.'),
        ({"agents": {"acme/echo": agent(tenants=[1])}}, ".tenants = [1]: expected a text"),
        ({"agents": {"acme/echo": agent(input_modes=[])}}, "expected a list of length >= 1"),
    ],
)
def test_a_wrong_shape(sections: dict[str, Any], expected: str) -> None:
    assert expected in str(only(**sections))


@pytest.mark.parametrize(
    "auth",
    [
        "hunter2hunter2hunter2",
        {"keys": "hunter2hunter2hunter2"},
        {"keys": {"ci": "hunter2hunter2hunter2"}},
        {"keys": {"ci": {"key": ["hunter2hunter2hunter2"]}}},
        {"keys": {"ci": {"key": KEY, "kye": "hunter2hunter2hunter2"}}},
        {"keys": {"ci": {"sha256": "hunter2hunter2hunter2"}}},
    ],
)
def test_a_key_in_the_wrong_place_is_not_repeated(auth: object) -> None:
    assert "hunter2" not in str(refused(None, auth=auth))


def test_all_problems_come_at_once() -> None:
    found = problems(
        server={"port": 70000, "prot": 1, "public_url": "nowhere"},
        store={"kind": "x"},
        agents={"Bad": {"nam": "x"}, "acme/b": agent(tenants=["v1"])},
    )
    keys = [text.split(":")[0].split(" =")[0] for text in found]
    assert keys == [
        "server.prot",
        "server.port",
        "store.kind",
        "agents.Bad.nam",
        "agents.Bad.backend",
        "server.public_url",
        "agents.Bad",
        "agents.Bad.name",
        'agents."acme/b".tenants[0]',
    ]


def test_many_problems_are_a_list_and_one_is_a_line() -> None:
    many = refused(None, server={"a": 1, "b": 2})
    assert many.message.splitlines()[0] == "the configuration has 2 problems:"
    assert many.message.splitlines()[1].startswith("- server.a: unknown key.")
    one = refused(None, server={"a": 1})
    assert one.message.startswith("the configuration: server.a: unknown key.")


def test_settings_made_in_python_are_held_to_the_same_rules() -> None:
    check(demo())
    bad = Settings(
        server=ServerSettings(port=70000),
        agents={"Bad": AgentSettings(backend=PythonBackend(target="nothing.py"))},
    )
    with pytest.raises(InvalidSettings) as caught:
        check(bad)
    assert [problem.key for problem in caught.value.problems] == [
        "server.port",
        "agents.Bad",
        "agents.Bad.backend.target",
    ]


def test_long_values_are_cut() -> None:
    assert len(str(only(store={"kind": "x" * 500}).value)) < 100
