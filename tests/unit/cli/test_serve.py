import errno
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from trunkline.app.reload import Load
from trunkline.app.serve import ServeInfo
from trunkline.backends.python.settings import PythonBackend
from trunkline.cli.commands import app
from trunkline.cli.remote.invocation import Invocation
from trunkline.cli.serve import announce, curl, screen
from trunkline.model.errors import ConfigError, StoreInUse
from trunkline.remote import Target
from trunkline.settings import Settings, demo, load

run = CliRunner().invoke


def serve_info(**given: Any) -> ServeInfo:
    fields: dict[str, Any] = {
        "url": "http://127.0.0.1:8642",
        "card_url": "http://127.0.0.1:8642/.well-known/agent-card.json",
        "local_url": "http://127.0.0.1:8642",
        "try_url": "http://127.0.0.1:8642/a2a/jsonrpc",
        "data": "/data/trunkline.db",
        "agents": [("demo/echo", "Echo", "http://127.0.0.1:8642/api/a2a/v1/agents/demo/echo")],
        "auth": "anonymous callers on loopback",
        "mcp_url": "",
        "version": "1.0",
    }
    return ServeInfo(**(fields | given))


class Gateway(ModuleType):
    """Stands where `trunkline.app.serve` does, and remembers what it was asked to serve."""

    def __init__(self) -> None:
        super().__init__("trunkline.app.serve")
        self.served: list[Settings] = []
        self.failure: Exception | None = None
        self.code = 0

    def serve(
        self,
        settings: Settings,
        *,
        load: Load,
        on_ready: Callable[[ServeInfo], None],
        on_waiting: Callable[[], None],
    ) -> int:
        # A reload reads the same files with the same options.
        assert load()[0] == settings
        self.served.append(settings)
        if self.failure is not None:
            raise self.failure
        on_ready(serve_info())
        return self.code


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gateway:
    made = Gateway()
    monkeypatch.setitem(sys.modules, "trunkline.app.serve", made)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


def served(gateway: Gateway, *arguments: str) -> Settings:
    result = run(app, ["serve", *arguments])
    assert result.exit_code == 0, result.output
    return gateway.served[-1]


def test_without_arguments_it_is_the_demo(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "trunkline.toml").write_text("not even TOML")
    assert served(gateway) == demo()
    folder = tmp_path / "share" / "trunkline"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_flags_win_over_the_file(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "conf" / "t.toml"
    file.parent.mkdir()
    file.write_text(
        '[server]\nport = 1\nhost = "0.0.0.0"\nheartbeat_s = 3.0\n[store]\nkind = "memory"\n'
        '[agents."a/b"]\nname = "B"\nbackend = { kind = "echo" }\n'
    )
    flags = shlex.split("--host ::1 --port 0 --log-level debug --log-format json --data d")
    settings = served(gateway, "--config", str(file), *flags)
    server = settings.server
    assert (server.host, server.port, server.heartbeat_s) == ("::1", 0, 3.0)
    assert (server.log_level, server.log_format) == ("debug", "json")
    assert settings.store.kind == "sqlite"
    assert settings.store.path == str(tmp_path / "d" / "trunkline.db")
    monkeypatch.setenv("TRUNKLINE_CONFIG", str(file))
    assert served(gateway, "--host", "localhost").server.heartbeat_s == 3.0


@pytest.mark.parametrize(
    ("db", "kind", "path"),
    [
        ("memory:", "memory", ""),
        ("memory://", "memory", ""),
        ("sqlite:///x.db", "sqlite", "{here}/x.db"),
        ("sqlite:///{here}/y.db", "sqlite", "{here}/y.db"),
        ("sqlite:///${x}.db", "sqlite", "{here}/${x}.db"),
    ],
)
def test_the_database_is_a_url(
    gateway: Gateway, tmp_path: Path, db: str, kind: str, path: str
) -> None:
    store = served(gateway, "--db", db.replace("{here}", str(tmp_path))).store
    assert (store.kind, store.path) == (kind, path.replace("{here}", str(tmp_path)))


JSON_FILES = """
[store]
kind = "json-file"
path = "/srv/tasks"
adopt_as = "alice"
[auth.keys.alice]
key = "0123456789abcdef"
[agents."a/b"]
name = "B"
backend = { kind = "echo" }
"""


@pytest.mark.parametrize(
    ("db", "adopt_as"),
    [
        ("sqlite:///x.db", ""),
        ("memory:", ""),
        ("postgresql://db.example/tasks", ""),
        ("json-file:////srv/others", "alice"),
    ],
)
def test_a_database_on_the_command_line_needs_no_keys_of_another_kind(
    gateway: Gateway, tmp_path: Path, db: str, adopt_as: str
) -> None:
    (tmp_path / "t.toml").write_text(JSON_FILES)
    assert served(gateway, "--config", "t.toml", "--db", db).store.adopt_as == adopt_as
    (tmp_path / "n.toml").write_text(
        JSON_FILES.replace('adopt_as = "alice"', 'synchronous = "normal"').replace(
            'kind = "json-file"', 'kind = "sqlite"'
        )
    )
    store = served(gateway, "--config", "n.toml", "--db", db).store
    assert store.synchronous == ("full" if db.startswith(("postgres", "json-file")) else "normal")


def test_data_is_no_folder_of_json_files(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(JSON_FILES)
    result = run(app, ["serve", "--config", "t.toml", "--data", "d"])
    assert (result.exit_code, gateway.served) == (2, [])
    assert "--data is the folder of a SQLite database" in result.stderr
    assert "--db json-file:///FOLDER" in result.stderr


def test_a_target_is_published(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    assert list(served(gateway, "mine.py").agents) == ["local/*"]


@pytest.mark.parametrize(("anonymous", "is_told"), [("", False), ("loopback", True)])
def test_keys_that_callers_on_this_machine_need_not_send_are_warned_of(
    gateway: Gateway, tmp_path: Path, anonymous: str, is_told: bool
) -> None:
    line = f'[auth]\nanonymous = "{anonymous}"\n' if anonymous else ""
    config = f'{line}[auth.keys.me]\nkey = "0123456789abcdef"\n'
    agent = '[agents."demo/echo"]\nname = "Echo"\nbackend = { kind = "echo" }\n'
    (tmp_path / "t.toml").write_text(config + agent)
    result = run(app, ["serve", "--config", "t.toml", "--port", "0"])
    assert result.exit_code == 0, result.output
    note = 'Note: auth.anonymous = "loopback": programs on this machine need no key although'
    assert (note in result.stdout) is is_told


OPENCLAW = '{channels: {a2a: {accounts: {main: {publicBaseUrl: "https://a.example"}}}}}'


def test_an_openclaw_file_is_served_and_its_notes_are_told(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "openclaw.json").write_text(OPENCLAW)
    result = run(app, ["serve", "--openclaw-config", "openclaw.json", "--port", "0"])
    assert result.exit_code == 0, result.output
    [settings] = gateway.served
    assert [*settings.agents] == ["openclaw/main"]
    assert settings.server.port == 0
    assert "Note: no agent of yours is behind this: the echo agent answers." in result.stdout
    assert (
        "Note: no key is required: anyone who reaches https://a.example may call" in result.stdout
    )
    # Nothing is kept on disk, so no folder is made for it.
    assert not (tmp_path / "share").exists()


def test_a_target_and_a_file_may_stand_beside_an_openclaw_file(
    gateway: Gateway, tmp_path: Path
) -> None:
    (tmp_path / "openclaw.json").write_text(OPENCLAW)
    (tmp_path / "mine.py").touch()
    (tmp_path / "t.toml").write_text('[auth.keys.me]\nkey = "0123456789abcdef"\n')
    arguments = shlex.split("mine.py --openclaw-config openclaw.json --config t.toml")
    settings = served(gateway, *arguments)
    backend = settings.agents["openclaw/main"].backend
    assert backend == PythonBackend(target=str(tmp_path / "mine.py"))
    assert not settings.allows_anonymous()


def test_0_3_is_tried_where_that_is_spoken() -> None:
    words = shlex.split(curl("http://h/rpc", version="0.3"))
    assert "A2A-Version: 0.3" in words
    assert '"method":"message/send"' in words[-1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--openclaw-config", "none.json"], "none.json: no such file."),
        (["--db", "mysql://x"], "--db mysql://x: expected sqlite:///FILE, json-file"),
        (["--db", "sqlite:///"], "--db sqlite:///: expected sqlite:///FILE, json-file"),
        (["--db", "memory:", "--data", "d"], "--data and --db both say where the database is."),
        (
            ["--host", "0.0.0.0"],
            'the command line: server.host = "0.0.0.0": other machines could call the gateway',
        ),
        (["--config", "none.toml"], "none.toml: no such file."),
        (["none.py"], "error: none.py: no such file."),
        (["--port", "70000"], "expected a whole number from 0 to 65535"),
        (["--log-level", "loud"], "loud"),
    ],
)
def test_wrong_use_ends_with_2(gateway: Gateway, arguments: list[str], expected: str) -> None:
    result = run(app, ["serve", *arguments])
    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert gateway.served == []


def test_a_file_that_is_not_python_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    result = run(app, ["serve", "notes.txt"])
    assert result.exit_code == 2
    assert "error: notes.txt: not Python. The name of a file with agents ends in .py." in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("failure", "code", "expected"),
    [
        (OSError(errno.EADDRINUSE, "in use", "[::1]:80"), 1, "error: [::1]:80 is already in use."),
        (OSError(errno.EADDRNOTAVAIL, "no", "h:1"), 1, "error: h:1 is not an address of this"),
        (
            OSError(errno.EACCES, "Permission denied", "127.0.0.1:80"),
            1,
            "error: 127.0.0.1:80: Permission denied. Ports below 1024 need privileges",
        ),
        (OSError(errno.ENOSPC, "No space left", "/d/x"), 1, "error: /d/x: No space left."),
        (OSError("odd"), 1, "error: odd."),
        (ConfigError("port 8642 is in use. Take --port 0."), 2, "error: port 8642 is in use."),
        (StoreInUse("another process holds it"), 1, "error: another process holds it"),
    ],
)
def test_failures_name_the_remedy(
    gateway: Gateway, failure: Exception, code: int, expected: str
) -> None:
    gateway.failure = failure
    result = run(app, ["serve"])
    assert result.exit_code == code
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_the_code_of_the_gateway_is_ours(gateway: Gateway) -> None:
    gateway.code = 1
    assert run(app, ["serve"]).exit_code == 1


def test_the_screen_names_everything(gateway: Gateway) -> None:
    text = run(app, ["serve"]).stdout
    info = serve_info()
    for part in (info.url, info.card_url, info.data, info.auth, *info.agents[0]):
        assert part in text
    assert (
        "curl -s http://127.0.0.1:8642/a2a/jsonrpc -H 'content-type: application/json' "
        "-H 'A2A-Version: 1.0' -d "
        '\'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":'
        '{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]}}}\''
    ) in text
    assert "\x1b" not in text


def test_several_agents_stand_below_each_other() -> None:
    agents = (("me/a", "A", "http://h/a"), ("me/long-name", "Long name", "http://h/b"))
    lines = screen(serve_info(agents=agents)).splitlines()
    assert "Agents    me/a          A          http://h/a" in lines
    assert "          me/long-name  Long name  http://h/b" in lines


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ('key = "${MY_OWN_KEY}"', '"$MY_OWN_KEY"'),
        # Neither a text in the file nor a digest names a variable.
        ('key = "written-in-the-file"', "KEY"),
        ('key = "${MY_OWN_KEY}-and-more"', "KEY"),
        (f'sha256 = "{64 * "0"}"', "KEY"),
    ],
)
def test_the_lines_to_try_name_the_variable_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, word: str
) -> None:
    monkeypatch.setenv("MY_OWN_KEY", "a-secret-of-mine")
    file = tmp_path / "trunkline.toml"
    agent = '[agents."me/a"]\nname = "A"\nbackend = { kind = "echo" }\n'
    file.write_text(f'{agent}[auth]\nanonymous = "never"\n[auth.keys.me]\n{written}\n')
    out = io.StringIO()
    announce(serve_info(), load(file), out=out)
    text = out.getvalue()
    assert f"send http://127.0.0.1:8642 hello --token {word}\n" in text
    assert f'-H "Authorization: Bearer {word.strip(chr(34))}"' in text
    assert "a-secret-of-mine" not in text


def test_behind_a_public_url_the_local_interface_is_tried() -> None:
    info = serve_info(
        url="https://a.example", card_url="https://a.example/.well-known/agent-card.json"
    )
    lines = screen(info, by_interface=True).splitlines()
    assert lines[:2] == ["Gateway   https://a.example", "Local     http://127.0.0.1:8642"]
    assert "  trunkline send http://127.0.0.1:8642/a2a/jsonrpc hello" in lines


def test_without_a_default_agent_the_first_one_is_tried() -> None:
    text = screen(
        serve_info(try_url="http://127.0.0.1:8642/api/a2a/v1/agents/demo/echo", card_url="")
    )
    assert "send http://127.0.0.1:8642/api/a2a/v1/agents/demo/echo hello\n" in text
    assert "curl -s http://127.0.0.1:8642/api/a2a/v1/agents/demo/echo " in text
    assert "Card" not in text


def test_lines_to_copy_begin_as_the_command_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_PROGRAM", "./trunkline")
    assert "\n  ./trunkline send http://127.0.0.1:8642 hello\n" in screen(serve_info())
    call = Invocation(named="http://h", target=Target(url="http://h"))
    assert call.command("list") == "./trunkline list http://h"
    monkeypatch.delenv("TRUNKLINE_PROGRAM")
    assert call.command("list") == "trunkline list http://h"


def test_help_fills_the_lines_of_the_terminal() -> None:
    # A process, because the runner for tests has a width of its own.
    shown = subprocess.run(
        [sys.executable, "-m", "trunkline", "serve", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=True,
    ).stdout
    assert (
        "Publishes the Python agents of TARGET and the agents of the configuration file." in shown
    )
    assert max(map(len, shown.splitlines())) <= 120


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_and_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = Terminal(), Terminal()
    announce(serve_info(), demo(), out=coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    announce(serve_info(), demo(), out=plain)
    assert "\x1b[1m" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_a_file_with_targets_alone_cannot_be_served(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[targets.support]\nbase_url = "https://support.example"\n')
    result = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"error: {file}: there is nothing to serve: the file has agents"
    )
    assert '[agents."demo/echo"]' in result.stderr


def test_the_screen_says_where_agents_are_attached() -> None:
    url = "https://relay.example/t/acme/a2a/helper"
    lines = screen(serve_info(relayed=(url,), attach_url="ws://127.0.0.1:8642/agent")).splitlines()
    assert f"At relay  {url}" in lines
    assert "Relay     gateways attach at ws://127.0.0.1:8642/agent" in lines


def test_an_agent_whose_card_names_the_relay_alone_is_tried_there(tmp_path: Path) -> None:
    url = "https://relay.example/t/acme/a2a/helper"
    file = tmp_path / "trunkline.toml"

    def shown(mode: str) -> str:
        file.write_text(
            '[agents."me/a"]\nname = "A"\nbackend = { kind = "echo" }\n'
            '[relay]\nurl = "wss://relay.example/agent"\ntenant = "acme"\nagent_id = "helper"\n'
            f'token = "0123456789abcdef"\nmode = "{mode}"\n'
        )
        out = io.StringIO()
        announce(serve_info(relayed=(url,)), load(file), out=out)
        return out.getvalue()

    assert f"\n  trunkline send {url} hello --token KEY\n" in shown("relay")
    assert "127.0.0.1:8642 hello" not in shown("relay")
    assert "127.0.0.1:8642 hello" in shown("both")


def test_a_relay_without_tenants_says_how_to_add_one(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    secret = "0123456789abcdef0123456789abcdef"

    def shown(text: str, **info: Any) -> str:
        file.write_text(f"[relay_server]\n{text}")
        out = io.StringIO()
        announce(serve_info(**info), load(file), out=out)
        return out.getvalue()

    assert "relay tenant add NAME" in shown("")
    assert "relay tenant add" not in shown("", tenants=("acme",))
    assert "relay tenant add" not in shown(f'jwt_secrets = ["{secret}"]')
    key = '[auth.keys.laptop]\nkey = "0123456789abcdef0123"\nattach = ["acme/*"]'
    assert "relay tenant add" not in shown(key)


def test_a_relay_needs_nothing_to_serve(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    key = 'key = "0123456789abcdef0123"'
    file.write_text(f'[server]\nrelay = true\n[auth.keys.laptop]\n{key}\nattach = ["acme/*"]')
    assert served(gateway, "--config", str(file)).agents == {}
