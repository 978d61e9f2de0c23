import os
from pathlib import Path

import pytest
from tests.unit.settings.documents import agent, document, refused

from trunkline.backends.echo import EchoBackend
from trunkline.backends.python.settings import PythonBackend, split_target
from trunkline.model.errors import ConfigError
from trunkline.settings import AgentSettings, Settings, demo, for_target, from_document, load
from trunkline.settings.agents import slug
from trunkline.settings.load import load_store
from trunkline.settings.root import publish

AGENT = '[agents."acme/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "trunkline.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_file_is_read(tmp_path: Path) -> None:
    settings = load(written(tmp_path, f"[server]\nport = 9000\n{AGENT}"))
    assert settings.server.port == 9000
    assert settings.agents == {"acme/echo": AgentSettings(name="Echo", backend=EchoBackend())}


def test_overrides_win(tmp_path: Path) -> None:
    file = written(tmp_path, f'[server]\nport = 9000\nhost = "0.0.0.0"\n{AGENT}')
    settings = load(file, overrides={"server": {"host": "127.0.0.1"}})
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 9000)


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    file = written(
        tmp_path,
        '[store]\npath = "../data/x.db"\n[agents."a/b"]\n'
        'backend = { kind = "python", target = "./a.py:rust" }\n'
        '[agents."a/c"]\nbackend = { kind = "python", target = "pkg.mod:attr" }\n',
    )
    settings = load(file)
    assert settings.store.path == str(tmp_path.parent / "data" / "x.db")
    assert settings.agents["a/b"].backend == PythonBackend(target=f"{tmp_path}/a.py:rust")
    assert settings.agents["a/c"].backend == PythonBackend(target="pkg.mod:attr")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[server]\nport = \n", "line 2, column 8"),
        ('[server]\nhost = "secret-looking', "line 2, column 23"),
        ("[server]\n[server]\n", "line 2, column 8"),
        ("port", "line 1, column 5"),
    ],
)
def test_a_syntax_error_names_line_and_column(tmp_path: Path, text: str, place: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.message.startswith(f"{file}, {place}: not TOML: ")
    assert "secret-looking" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[server]\nport = 1\nport = 2\n", "the key is there already. Remove one of the two."),
        ("[server]\n[server]\n", "the table is there already. Put all its keys into one."),
        ("[store]\na = {b = 1}\na.c = 2\n", "Put all its keys between the braces."),
        ("[server]\nhost = localhost\n", 'this is not a value. Strings have "quotes", and'),
    ],
)
def test_a_syntax_error_is_said_in_words_of_the_file(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text))
    assert what in caught.value.message
    assert "('" not in caught.value.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file\. Give the path"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)
    file = tmp_path / "latin.toml"
    file.write_bytes(b"a = '\xe9'")
    with pytest.raises(ConfigError, match=r"not UTF-8 at byte 5\. Save the file as UTF-8"):
        load(file)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "bom.toml"
    file.write_bytes(b"\xef\xbb\xbf" + AGENT.encode())
    assert load(file).agents


def described(text: str, **environment: str) -> str:
    made = from_document({"agents": {"a/b": agent(description=text)}}, environment=environment)
    return made.agents["a/b"].description


def test_references_are_filled_in() -> None:
    assert described("${A}-${B}", A="1", B="2") == "1-2"
    assert described("${A:-x}") == "x"
    assert described("${A:-x}", A="") == "x"
    assert described("${A:-}") == ""
    assert described("${A}", A="") == ""
    assert described("$${A} costs 5$") == "${A} costs 5$"
    # What came out of the environment is not looked at again.
    assert described("${A}", A="${B}") == "${B}"


def test_references_may_be_numbers() -> None:
    environment = {"PORT": "9000", "LOG": "true"}
    server = {"port": "${PORT}", "log_requests": "${LOG}", "drain_s": "${D:-2.5}"}
    settings = from_document(document(server=server), environment=environment)
    assert settings.server.port == 9000
    assert settings.server.log_requests is True
    assert settings.server.drain_s == 2.5


def test_references_reach_into_lists_and_free_tables() -> None:
    extensions = [{"uri": "urn:x", "params": {"a": ["${A}"]}}]
    settings = from_document(
        {"agents": {"a/b": agent(tenants=["${A}"], extensions=extensions)}},
        environment={"A": "acme"},
    )
    made = settings.agents["a/b"]
    assert made.tenants == ("acme",)
    assert made.extensions[0].params == {"a": ["acme"]}
    assert type(made.tenants[0]) is str


def test_an_unset_variable_names_key_and_variable() -> None:
    problem = refused(None, server={"host": "${HOST}"}).problems[0]
    assert str(problem) == (
        "server.host: the environment variable HOST is not set. "
        'Set it, or give a default: host = "${HOST:-default}".'
    )
    # A secret has no place in the file.
    secret = refused(None, auth={"keys": {"ci": {"key": "${CI_KEY}"}}}).problems[0]
    assert str(secret) == "auth.keys.ci.key: the environment variable CI_KEY is not set. Set it."
    assert len(refused(None, auth={"keys": {"ci": {"key": "${CI_KEY}"}}}).problems) == 1


def test_half_a_reference_is_refused() -> None:
    problem = refused(None, server={"public_url": "${A b}"}).problems[0]
    assert problem.what == "has a ${ that is not a reference"
    assert "$${" in problem.remedy


@pytest.mark.parametrize(
    "server", [{"public_url": "ftp://${V}"}, {"port": "${V}"}, {"log_level": "${V}"}]
)
def test_what_came_out_of_the_environment_is_not_shown(server: dict[str, str]) -> None:
    error = refused({"V": "hunter2"}, server=server)
    assert "hunter2" not in error.message
    assert "${V}" in error.message


def test_a_remedy_does_not_show_it_either() -> None:
    error = refused({"V": "hunter2"}, agents={"a/b": agent(jsonrpc_path="${V}")})
    assert "hunter2" not in error.message
    assert 'jsonrpc_path = "${V}": expected a path that starts with /.' in error.message


def test_dates_become_texts(tmp_path: Path) -> None:
    text = f'{AGENT}extensions = [{{ uri = "urn:x", params = {{ since = 2026-01-02 }} }}]\n'
    params = load(written(tmp_path, text)).agents["acme/echo"].extensions[0].params
    assert params == {"since": "2026-01-02"}


def test_the_demo_is_an_echo_agent() -> None:
    settings = demo(overrides={"server": {"port": 0}})
    assert settings.default_agent() == "demo/echo"
    made = settings.agents["demo/echo"]
    assert (made.name, made.backend, len(made.skills)) == ("Echo", EchoBackend(), 1)
    assert settings.server.port == 0


def test_a_target_stands_for_its_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").touch()
    monkeypatch.chdir(tmp_path)
    settings = for_target("mine.py")
    assert settings.agents["local/*"] == AgentSettings(
        default=True, backend=PythonBackend(target=os.path.join(tmp_path, "mine.py"))
    )
    both = publish(settings, {"local/*": ["Rust expert", "echo"]})
    assert list(both.agents) == ["local/rust-expert", "local/echo"]
    assert both.default_agent() == "local/rust-expert"
    assert for_target("pkg:attr").agents["local/*"].backend == PythonBackend(target="pkg:attr")


def test_a_target_joins_the_agents_of_a_file(tmp_path: Path) -> None:
    settings = for_target("pkg:attr", config=written(tmp_path, AGENT))
    assert set(settings.agents) == {"acme/echo", "local/*"}
    assert not settings.agents["local/*"].default


def test_a_handle_taken_twice_is_refused() -> None:
    settings: Settings = for_target("pkg:attr")
    with pytest.raises(ConfigError, match="two agents have this handle"):
        publish(settings, {"local/*": ["a", "A"]})


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("a.py", ("a.py", "")),
        ("a.py:b", ("a.py", "b")),
        ("pkg.mod:a.b", ("pkg.mod", "a.b")),
        ("C:\\x\\a.py", ("C:\\x\\a.py", "")),
        ("C:\\x\\a.py:b", ("C:\\x\\a.py", "b")),
        ("pkg", ("pkg", "")),
    ],
)
def test_targets_are_split(target: str, parts: tuple[str, str]) -> None:
    assert split_target(target) == parts


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Rust expert!", "rust-expert"), ("Café_2", "cafe-2"), ("日本", "agent"), ("-a-", "a")],
)
def test_slugs(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_the_store_is_found_whatever_the_other_tables_say(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '[store]\npath = "${WHERE}/x.db"\n[server]\nprot = 1\n[auth.keys.me]\nkey = "${NOT_SET}"\n',
    )
    store = load_store(file, environment={"WHERE": "data"})
    assert store.path == str(tmp_path / "data" / "x.db")
    assert load_store(written(tmp_path, "")).path == ""
    with pytest.raises(ConfigError, match=r"store\.kind"):
        load_store(written(tmp_path, '[store]\nkind = "paper"\n'))


def test_owners_may_have_backends_that_there_are() -> None:
    tables = {"hub": {"owner_backends": ["a2a", "comand"]}}
    with pytest.raises(ConfigError, match=r'hub.owner_backends\[1\].*Did you mean "command"'):
        from_document(tables, environment={})
    assert from_document({"hub": {}}, environment={}).agents == {}
