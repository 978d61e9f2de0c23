"""`trunkline relay` and its commands, on a store that no gateway uses."""

import asyncio
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.relay.mailboxes import letter
from typer.testing import CliRunner, Result

from trunkline.app.relay.tenants import FirstTenant, TenantParts
from trunkline.app.reload import Load
from trunkline.app.serve import ServeInfo
from trunkline.cli.commands import app
from trunkline.cli.relay import announce, screen
from trunkline.clock import SystemClock
from trunkline.model.errors import ConfigError
from trunkline.protocol.jwt import is_signed_with, read_jwt, sign_with_secret
from trunkline.relay.mailbox.mailboxes import Mailboxes
from trunkline.relay.policies import AgentPolicies
from trunkline.relay.tenants.settings import TokenSettings
from trunkline.settings import Settings
from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite.store import SqliteStore

DAY_S = 24 * 3600


class Shell:
    def __init__(self, *where: str) -> None:
        self.where = where

    def run(self, *words: str, given: str = "") -> Result:
        return CliRunner().invoke(app, ["relay", *words, *self.where], input=given)

    def json(self, *words: str) -> Any:
        done = self.run(*words, "-o", "json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def claims(self, *words: str, secret: str) -> Any:
        done = self.run("token", *words)
        assert done.exit_code == 0, done.stderr
        # Alone on stdout, for scripts.
        token = read_jwt(done.stdout.strip().encode())
        assert token is not None
        assert is_signed_with(token, [secret.encode()])
        return dict(token.claims)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell("--data", str(tmp_path))


def test_a_tenant_is_added_with_a_secret_that_is_shown_once(shell: Shell) -> None:
    done = shell.run("tenant", "add", "acme")
    assert done.exit_code == 0, done.stderr
    secret = done.stdout.strip()
    assert len(bytes.fromhex(secret)) == 32
    assert secret not in done.stderr
    listed = shell.run("tenant", "list")
    assert secret not in listed.stdout
    assert listed.stdout.split() == [
        *("NAME", "STATUS", "FROM", "SECRETS", "KEYS"),
        *("acme", "active", "store", "1", "-"),
    ]
    again = shell.run("tenant", "add", "ACME")
    assert (again.exit_code, "already" in again.stderr) == (1, True)


def test_a_token_is_for_a_host_or_for_a_client(shell: Shell) -> None:
    made = shell.json("tenant", "add", "acme")
    host = shell.claims("--tenant", "acme", "--agent", "helper", secret=made["secret"])
    assert {name: host[name] for name in ("tenant", "role", "agent_id", "sub")} == {
        "tenant": "acme",
        "role": "agent",
        "agent_id": "helper",
        "sub": "agent:acme:helper",
    }
    assert host["exp"] - host["iat"] == DAY_S
    two = ("--agent", "helper", "--agent", "reviewer")
    several = shell.claims("--tenant", "acme", *two, secret=made["secret"])
    assert several["agent_id"] == ["helper", "reviewer"]
    words = ("--client", "alice", "--scopes", "message:send,tasks:read", "--expires", "90s")
    client = shell.claims("--tenant", "acme", *words, secret=made["secret"])
    assert (client["role"], client["sub"], client["exp"] - client["iat"]) == ("client", "alice", 90)
    assert client["scopes"] == ["message:send", "tasks:read"]
    assert len({each["jti"] for each in (host, several, client)}) == 3


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("token", "--tenant", "acme"), 1, "--agent NAME for a gateway, or --client NAME"),
        (("token", "--tenant", "acme", "--agent", "a", "--client", "b"), 1, "not both"),
        (("token", "--tenant", "acme", "--agent", "A b"), 1, "lower-case"),
        (("token", "--tenant", "acme", "--client", "a b"), 1, "visible ASCII"),
        (
            ("token", "--tenant", "acme", "--client", "a", "--scopes", "x"),
            1,
            "'x' is none of: message",
        ),
        (("token", "--tenant", "acme", "--agent", "a", "--scopes", "tasks:read"), 1, "no scopes"),
        (("token", "--tenant", "acme", "--client", "a", "--expires", "25h"), 2, "up to 24h"),
        (("token", "--tenant", "other", "--client", "a"), 1, "no tenant 'other'"),
        (("token", "--client", "a"), 2, "--tenant"),
        (("tenant", "disable", "other"), 1, "no tenant 'other'; see: trunkline relay tenant list"),
        (("tenant", "rotate", "acme", "--grace", "2d"), 2, "up to 24h"),
        (("tenant", "remove", "other"), 1, "no tenant 'other'"),
        (("deny",), 2, "--subject"),
        (("deny", "x", "--subject", "y"), 2, "not both"),
        (("allow", "x"), 1, "no denial"),
        (("agents",), 15, "no gateway is running"),
    ],
)
def test_what_is_wrong_is_said(shell: Shell, words: Sequence[str], code: int, text: str) -> None:
    shell.json("tenant", "add", "acme")
    done = shell.run(*words)
    assert (done.exit_code, text in done.stderr) == (code, True), done.stderr


def test_a_disabled_tenant_gets_no_tokens(shell: Shell) -> None:
    shell.json("tenant", "add", "acme")
    assert shell.json("tenant", "disable", "acme")["status"] == "disabled"
    refused = shell.run("token", "--tenant", "acme", "--client", "a")
    assert (refused.exit_code, "enable it first" in refused.stderr) == (1, True)
    assert shell.json("tenant", "enable", "acme")["status"] == "active"
    assert shell.run("token", "--tenant", "acme", "--client", "a").exit_code == 0


def test_a_rotated_secret_signs_the_next_token(shell: Shell) -> None:
    old = shell.json("tenant", "add", "acme")
    new = shell.json("tenant", "rotate", "acme", "--grace", "1h")
    assert new["secret"] != old["secret"]
    shell.claims("--tenant", "acme", "--client", "a", secret=new["secret"])
    [item] = shell.json("tenant", "list")["items"]
    ends = {each["id"]: each["endsAt"] is not None for each in item["secrets"]}
    assert ends == {old["id"]: True, new["id"]: False}
    shell.json("tenant", "rotate", "acme", "--grace", "0")
    [item] = shell.json("tenant", "list")["items"]
    assert len(item["secrets"]) == 1
    lost = {"detachedAgents": [], "lostMessages": 0}
    assert shell.json("tenant", "remove", "acme") == {"name": "acme", **lost}
    assert shell.json("tenant", "list") == {"items": []}


def test_denials_are_listed_and_taken_back(shell: Shell) -> None:
    assert shell.run("denied").stdout == "nothing is denied\n"
    shell.json("deny", "some-jti")
    shell.json("deny", "--subject", "alice", "--tenant", "acme")
    items = shell.json("denied")["items"]
    found = [(each["what"], each["name"], each["tenant"]) for each in items]
    assert found == [("jti", "some-jti", ""), ("sub", "alice", "acme")]
    assert shell.run("allow", "--subject", "alice").exit_code == 1
    shell.json("allow", "--subject", "alice", "--tenant", "acme")
    assert len(shell.json("denied")["items"]) == 1


def test_a_token_is_denied_by_itself(shell: Shell) -> None:
    shell.json("tenant", "add", "acme")
    made = shell.json("token", "--tenant", "acme", "--client", "alice")
    done = shell.run("deny", "-", given=made["token"] + "\n")
    assert done.exit_code == 0, done.stderr
    [denied] = shell.json("denied")["items"]
    assert (denied["what"], denied["name"], denied["tenant"]) == ("jti", made["jti"], "acme")
    without_id = sign_with_secret({"alg": "HS256"}, {"tenant": "acme"}, b"x" * 32)
    for given, text in (("nonsense", "no JSON Web Token"), (without_id, "no id")):
        refused = shell.run("deny", "-", given=given)
        assert (refused.exit_code, text in refused.stderr) == (2, True), refused.stderr


def test_tenants_of_the_configuration_are_changed_there(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    secret = "0123456789abcdef0123456789abcdef"
    file.write_text(
        f'[store]\npath = "relay.db"\n[relay_server]\nissuer = "me"\naudience = "you"\n'
        f'[relay_server.tenants.acme]\nsecrets = ["{secret}"]\n'
        f'[relay_server.tenants.keys]\njwks_path = "keys.json"\n'
    )
    shell = Shell("--config", str(file))
    [acme, keys] = shell.json("tenant", "list")["items"]
    assert (acme["origin"], acme["configuredSecrets"]) == ("configuration", 1)
    assert keys["keys"] == str(tmp_path / "keys.json")
    claims = shell.claims("--tenant", "acme", "--client", "a", secret=secret)
    assert (claims["iss"], claims["aud"]) == ("me", "you")
    for words in (("tenant", "rotate", "acme"), ("tenant", "remove", "acme")):
        done = shell.run(*words)
        assert (done.exit_code, "[relay_server.tenants.acme]" in done.stderr) == (1, True)
    # A command may disable it.
    assert shell.json("tenant", "disable", "acme")["status"] == "disabled"
    done = shell.run("token", "--tenant", "keys", "--client", "a")
    assert (done.exit_code, "private key" in done.stderr) == (1, True)


# Running it.


class Gateway(ModuleType):
    """Stands where `trunkline.app.serve` does, and remembers what it was asked to serve."""

    def __init__(self) -> None:
        super().__init__("trunkline.app.serve")
        self.served: list[tuple[Settings, str]] = []

    def serve(
        self,
        settings: Settings,
        *,
        load: Load,
        on_ready: Callable[[ServeInfo], None],
        on_waiting: Callable[[], None],
        first_tenant: str,
    ) -> int:
        assert load()[0] == settings
        self.served.append((settings, first_tenant))
        on_ready(relay_info())
        return 0


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gateway:
    made = Gateway()
    monkeypatch.setitem(sys.modules, "trunkline.app.serve", made)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    return made


def relay_info(**given: Any) -> ServeInfo:
    fields: dict[str, Any] = {
        "url": "http://127.0.0.1:8642",
        "card_url": "",
        "local_url": "http://127.0.0.1:8642",
        "try_url": "",
        "data": "sqlite at /data/relay.db",
        "agents": [],
        "auth": "tokens of the relay's tenants",
        "mcp_url": "",
        "version": "1.0",
        "attach_url": "ws://127.0.0.1:8642/agent",
        "tenants": ("personal",),
    }
    return ServeInfo(**(fields | given))


def run_relay(*words: str) -> Result:
    return CliRunner().invoke(app, ["relay", *words])


def test_it_needs_no_configuration(gateway: Gateway, tmp_path: Path) -> None:
    done = run_relay("--port", "9000")
    assert done.exit_code == 0, done.stderr
    [(settings, first)] = gateway.served
    assert settings.as_relay is not None
    assert settings.agents == {}
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 9000)
    assert settings.store.path == str(tmp_path / "share" / "trunkline" / "relay.db")
    assert first == "personal"


def test_commands_find_the_store_of_a_relay_without_flags(gateway: Gateway, tmp_path: Path) -> None:
    done = run_relay("tenant", "add", "acme")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "share" / "trunkline" / "relay.db").exists()


def test_a_configuration_is_taken(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text('[store]\nkind = "memory"\n[relay_server]\nwait_s = 2.0\n')
    done = run_relay("--config", str(file), "--tenant", "acme")
    assert done.exit_code == 0, done.stderr
    [(settings, first)] = gateway.served
    assert settings.as_relay is not None
    assert settings.as_relay.wait_s == 2
    assert first == "acme"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--host", "0.0.0.0"), "unencrypted"),
        (("--host", "0.0.0.0", "--public-url", "http://relay.example.com"), "unencrypted"),
        (("--tenant", "a b"), "letters, digits and hyphens"),
        (("--data", "x", "tenant", "list"), "goes behind the command"),
        (("--config", "agents.toml"), "only relays"),
    ],
)
def test_what_is_unsafe_or_wrong_is_refused(
    gateway: Gateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    agent = '[agents."a/b"]\nname = "B"\nbackend = { kind = "echo" }\n'
    (tmp_path / "agents.toml").write_text(agent)
    done = run_relay(*words)
    assert (done.exit_code, text in done.stderr) == (2, True), done.stderr
    assert gateway.served == []


def test_a_proxy_with_tls_may_be_on_another_machine(gateway: Gateway) -> None:
    done = run_relay("--host", "0.0.0.0", "--public-url", "https://relay.example.com")
    assert done.exit_code == 0, done.stderr


def test_the_first_start_shows_tokens() -> None:
    first = FirstTenant(host_token="host-token", client_token="client-token")
    words = ["--data", "/data folder"]
    text = screen(relay_info(first_tenant=first), tenant="personal", words=words)
    assert "export TRUNKLINE_RELAY_TOKEN=host-token" in text
    url = "http://127.0.0.1:8642/t/personal/a2a/helper"
    assert f"send {url} hello --token client-token" in text
    assert "relay token --data '/data folder' --tenant personal --agent helper" in text


def test_tokens_are_shown_on_a_terminal_alone() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    first = FirstTenant(host_token="host-token", client_token="client-token")
    terminal, log = Terminal(), io.StringIO()
    for out in (terminal, log):
        announce(relay_info(first_tenant=first), tenant="personal", out=out)
    assert "host-token" in terminal.getvalue()
    assert "client-token" in terminal.getvalue()
    assert "-token" not in log.getvalue().replace("--token", "")
    assert "relay token --tenant personal --agent helper" in log.getvalue()


def test_later_starts_show_how_to_make_tokens() -> None:
    text = screen(relay_info(tenants=("acme", "other")), tenant="personal")
    assert "relay token --tenant acme --client me" in text
    assert "--token" not in text
    many = relay_info(tenants=tuple(f"t{i}" for i in range(20)))
    assert "t7 and 12 more" in screen(many, tenant="personal")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("list",), 0, "no mailboxes"),
        (("dead", "acme/helper"), 0, "no dead letters"),
        (("retry", "acme/helper", "t"), 1, "has no dead letter of the task t"),
        (("discard", "acme/helper", "t"), 1, "has no dead letter of the task t"),
    ],
)
def test_a_mailbox_without_letters(
    shell: Shell, words: Sequence[str], code: int, text: str
) -> None:
    done = shell.run("mail", *words)
    assert (done.exit_code, text in done.stdout + done.stderr) == (code, True), done.stderr


def test_dead_letters_are_listed_sent_again_and_discarded(shell: Shell, tmp_path: Path) -> None:
    shell.run("mail", "list")
    (database,) = tmp_path.rglob("*.db")
    asyncio.run(_two_dead_letters(database))
    listed = shell.json("mail", "list")["items"]
    assert [(each["agent"], each["waiting"], each["dead"]) for each in listed] == [
        ("acme/helper", 0, 2)
    ]
    done = shell.run("mail", "dead", "acme/helper")
    assert "it is too old" in done.stdout
    assert done.stdout.endswith("2 dead letters\n")
    task = shell.run("mail", "retry", "acme/helper", "1").stdout.strip()
    assert len(task) == 36
    assert shell.run("mail", "discard", "acme/helper", "2").stdout == "discarded 2\n"
    listed = shell.json("mail", "list")["items"]
    assert [(each["waiting"], each["dead"]) for each in listed] == [(1, 0)]
    assert "acme/helper" in shell.run("mail", "list").stdout


def test_a_removal_says_what_was_lost(shell: Shell, tmp_path: Path) -> None:
    for name in ("acme", "acme-labs"):
        shell.json("tenant", "add", name)
    (database,) = tmp_path.rglob("*.db")
    asyncio.run(_two_dead_letters(database))
    shell.run("mail", "retry", "acme/helper", "1")
    assert shell.run("tenant", "remove", "acme-labs").stdout == "removed acme-labs\n"
    done = shell.run("tenant", "remove", "acme")
    assert done.stdout == "removed acme; 1 message will not be delivered\n"


async def test_a_start_after_the_only_tenant_was_removed_says_what_to_do() -> None:
    store = MemoryStore()
    await store.open()
    parts = TenantParts(TokenSettings(), clock=SystemClock())
    await parts.open_alone(store, is_shared=False)
    assert await parts.first("personal") is not None
    await parts.tenants.remove("personal")
    for name in ("personal", "Personal"):
        with pytest.raises(ConfigError, match="start with --tenant NAME"):
            await parts.first(name)
    assert await parts.first("other") is not None
    await parts.close()
    await store.close()


async def _two_dead_letters(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    mailboxes = Mailboxes(clock=SystemClock(), policies=AgentPolicies())
    await mailboxes.open(store, is_shared=False, tell=lambda _: None)
    mailbox = await mailboxes.of("acme/helper")
    for name in ("1", "2"):
        waiting = await mailbox.put(letter(name, now_ms=SystemClock().now_ms()))
        await mailbox.bury(waiting, "it is too old")
    await mailboxes.close()
    await store.close()
