"""The tables and keys of a relay, on both of its sides."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import KEY, agent, made, only, problems

from trunkline.config.secret import secrets_in
from trunkline.engine.access import is_unrestricted, may_attach
from trunkline.model.principal import Grant, Principal
from trunkline.settings import Settings, effective, load
from trunkline.settings.relay_server import RelayServerSettings

RELAY = {
    "url": "wss://relay.example/agent",
    "tenant": "acme",
    "agent_id": "helper",
    "token": "a-token",
}
AGENTS = {"me/a": agent(default=True), "me/b": agent()}


def with_relay(**keys: Any) -> dict[str, Any]:
    table = {name: value for name, value in (RELAY | keys).items() if value is not None}
    return {"agents": AGENTS, "relay": table}


def host(**keys: Any) -> Settings:
    return made(**with_relay(**keys))


def test_one_name_is_for_the_default_agent() -> None:
    relay = host().relay
    assert relay is not None
    assert relay.handles("me/a") == {"acme/helper": "me/a"}
    assert relay.mode == "both"


def test_names_may_be_for_several_agents() -> None:
    relay = host(agent_id=None, agents={"one": "me/a", "two": "me/b"}).relay
    assert relay is not None
    assert relay.handles("me/a") == {"acme/one": "me/a", "acme/two": "me/b"}


def test_callers_of_an_older_relay_may_call_everything_unless_it_is_said() -> None:
    relay, limited = host().relay, host(grants=["SendMessage", "GetTask"]).relay
    assert relay is not None
    assert limited is not None
    assert relay.protocol == "auto"
    assert relay.v1_operations() is None
    assert limited.v1_operations() == frozenset({"SendMessage", "GetTask"})


@pytest.mark.parametrize(
    ("url", "base_url"),
    [
        ("wss://relay.example/agent", "https://relay.example"),
        ("wss://relay.example/agent/", "https://relay.example"),
        ("wss://relay.example:8443/base/agent", "https://relay.example:8443/base"),
        ("ws://127.0.0.1:8642/agent", "http://127.0.0.1:8642"),
        ("wss://relay.example", "https://relay.example"),
    ],
)
def test_clients_reach_the_relay_where_hosts_do(url: str, base_url: str) -> None:
    relay = host(url=url).relay
    assert relay is not None
    assert relay.base_url == base_url


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ({"url": "https://relay.example"}, "relay.url", 'Write "wss://relay.example/agent"'),
        ({"url": "http://relay.example/agent"}, "relay.url", 'Write "wss://relay.example/agent"'),
        ({"url": "http://127.0.0.1:1/r/agent"}, "relay.url", 'Write "ws://127.0.0.1:1/r/agent"'),
        ({"url": "https://"}, "relay.url", "no address of a WebSocket"),
        ({"url": "wss://"}, "relay.url", "no address of a WebSocket"),
        ({"url": "wss://relay.example:x/agent"}, "relay.url", "no address of a WebSocket"),
        ({"url": "wss://me@relay.example/agent"}, "relay.url", "a user"),
        ({"url": "wss://relay.example/agent?token=x"}, "relay.url", "a query"),
        ({"url": "ws://relay.example/agent"}, "relay.url", "unencrypted"),
        ({"standby": ["https://b.example"]}, "relay.standby[0]", "no address of a WebSocket"),
        ({"standby": ["wss://b.example", "ws://c.example"]}, "relay.standby[1]", "unencrypted"),
        ({"standby": [RELAY["url"]]}, "relay.standby[0]", "is given before"),
        ({"url": ["wss://b.example"]}, "relay.url", "expected"),
        ({"tenant": "a/b"}, "relay.tenant", "cannot be a tenant"),
        ({"agent_id": "Helper!"}, "relay.agent_id", "cannot be the name"),
        ({"agent_id": None, "agents": {"X": "me/a"}}, "relay.agents", "cannot be the name"),
        ({"agents": {"x": "me/a"}}, "relay.agents", "not both"),
        ({"agent_id": None}, "relay.agents", "needs agent_id or agents"),
        ({"agent_id": None, "agents": {"x": "me/c"}}, "relay.agents.x", "no agent"),
        ({"token": None}, "relay.token", "needs token or token_path"),
        ({"token_path": "x"}, "relay.token", "not both"),
        ({"token": ""}, "relay.token", "cannot be sent"),
        ({"token": "a b"}, "relay.token", "cannot be sent"),
        ({"mode": "direct"}, "relay.mode", ""),
        ({"protocol": "v3"}, "relay.protocol", ""),
        ({"grants": []}, "relay.grants", "names no operation"),
        ({"grants": ["message/send"]}, "relay.grants[0]", "is no operation"),
        (
            {"protocol": "v1", "transport": "long-poll"},
            "relay.transport",
            "is nothing that a relay of protocol v1 knows",
        ),
        (
            {"protocol": "v1", "agent_id": None, "agents": {"x": "me/a", "y": "me/b"}},
            "relay.agents",
            "one for each token",
        ),
    ],
)
def test_what_is_wrong_is_named(keys: dict[str, Any], key: str, what: str) -> None:
    problem = only(**with_relay(**keys))
    assert problem.key == key
    assert what in str(problem)


def test_the_default_agent_must_be_there() -> None:
    agents = {"me/a": agent(), "me/b": agent()}
    problem = only(agents=agents, relay=RELAY)
    assert (problem.key, "there is none" in problem.what) == ("relay.agent_id", True)


def test_the_agents_of_a_target_are_not_known_yet() -> None:
    everything = {"me/*": {"backend": {"kind": "python", "target": "agents"}}}
    relay = {**RELAY, "agents": {"x": "me/found-later"}}
    del relay["agent_id"]
    assert made(agents=everything, relay=relay).relay is not None


# The relay itself.


def test_a_relay_needs_no_agents_of_its_own() -> None:
    keys = {"laptop": {"key": KEY, "attach": ["acme/*"]}}
    assert made(agents={}, server={"relay": True}, auth={"keys": keys}).server.relay


RELAYING = {"auth": {"keys": {"laptop": {"key": KEY, "attach": ["acme/*"]}}}}


@pytest.mark.parametrize(
    "table", [{"server": {"relay": True}}, {"relay_server": {}}], ids=["short", "table"]
)
def test_the_table_turns_a_relay_on(table: dict[str, Any]) -> None:
    assert made(agents={}, **RELAYING, **table).as_relay == RelayServerSettings()
    assert made(**RELAYING).as_relay is None


SECRET = "0123456789abcdef0123456789abcdef"


def test_tenants_are_credentials_of_a_relay() -> None:
    tenants = {"acme": {"secrets": [SECRET, f"{SECRET}2"], "secrets_by_id": {"a": f"{SECRET}3"}}}
    settings = made(
        agents={},
        server={"host": "0.0.0.0"},
        relay_server={"tenants": tenants, "jwt_secrets": [f"{SECRET}4"], "audience": "relay"},
    )
    assert settings.as_relay is not None
    tokens = settings.as_relay.tokens(allow_private=False)
    assert tokens.tenants["acme"].secrets[0].reveal() == SECRET
    assert [each.reveal() for each in tokens.secrets] == [f"{SECRET}4"]
    assert tokens.audience == "relay"
    shown = effective(settings)["relay_server"]
    assert shown["tenants"]["acme"]["secrets"] == ["***", "***"]
    assert shown["jwt_secrets"] == ["***"]
    assert SECRET in [*secrets_in(settings)]


def test_the_file_of_keys_is_beside_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[relay_server.tenants.acme]\njwks_path = "keys.json"')
    relay = load(file).relay_server
    assert relay is not None
    assert relay.tenants["acme"].jwks_path == str(tmp_path / "keys.json")


@pytest.mark.parametrize(
    ("table", "key", "what"),
    [
        ({"tenants": {"a/b": {"secrets": [SECRET]}}}, 'relay_server.tenants."a/b"', "be a tenant"),
        ({"tenants": {"acme": {}}}, "relay_server.tenants.acme", "has a token"),
        (
            {"tenants": {"acme": {"secrets": ["too-little"]}}},
            "relay_server.tenants.acme.secrets[0]",
            "32 bytes",
        ),
        (
            {"tenants": {"acme": {"secrets": 7, "secrets_by_id": {"a": SECRET}}}},
            "relay_server.tenants.acme.secrets",
            "a list of texts",
        ),
        (
            {"tenants": {"acme": {"secrets_by_id": {"a": "too-little"}}}},
            "relay_server.tenants.acme.secrets_by_id.a",
            "32 bytes",
        ),
        (
            {"tenants": {"acme": {"jwks_url": "https://x.example", "jwks_path": "x"}}},
            "relay_server.tenants.acme",
            "both",
        ),
        (
            {"tenants": {"acme": {"jwks_url": "ftp://x.example"}}},
            "relay_server.tenants.acme.jwks_url",
            "http",
        ),
        (
            {"tenants": {"acme": {"secrets": [SECRET]}, "Acme": {"secrets": [f"{SECRET}2"]}}},
            "relay_server.tenants.Acme",
            "only in case",
        ),
        (
            {"tenants": {"acme": {"secrets": [SECRET]}, "other": {"secrets": [SECRET]}}},
            "relay_server.tenants.other.secrets[0]",
            "the secret of relay_server.tenants.acme.secrets[0]",
        ),
        (
            {"jwt_secrets": [SECRET], "tenants": {"acme": {"secrets": [SECRET]}}},
            "relay_server.tenants.acme.secrets[0]",
            "the secret of relay_server.jwt_secrets[0]",
        ),
        ({"jwt_secrets": ["too-little"]}, "relay_server.jwt_secrets[0]", "32 bytes"),
    ],
)
def test_what_is_wrong_with_tenants_is_named(table: dict[str, Any], key: str, what: str) -> None:
    problem = only(relay_server=table)
    assert problem.key == key, problem
    assert what in problem.what
    assert "too-little" not in str(problem)


def test_a_relay_keeps_its_records_in_the_main_store() -> None:
    relay = made(agents={}, **RELAYING, relay_server={}, store={"path": "relay.db"})
    assert relay.stores() == [relay.store]
    assert relay.operator_store() == relay.store


def test_an_agent_of_a_relay_may_have_settings_of_its_own() -> None:
    agents = {"acme/helper": {"wait_s": 20}, "acme/same": {}}
    relay = made(**RELAYING, relay_server={"wait_s": 2.5, "agents": agents}).as_relay
    assert relay is not None
    waits = {agent: relay.policies.of(agent).wait_s for agent in (*agents, "acme/other")}
    assert waits == {"acme/helper": 20, "acme/same": 2.5, "acme/other": 2.5}


@pytest.mark.parametrize(
    ("table", "key", "what"),
    [
        ({"wait_s": 61}, "relay_server.wait_s", "<= 60"),
        ({"agents": {"acme": {}}}, "relay_server.agents.acme", "no agent of a relay"),
        ({"agents": {"acme/*": {}}}, 'relay_server.agents."acme/*"', "no agent of a relay"),
        (
            {"agents": {"acme/helper": {"wait_s": -1}}},
            'relay_server.agents."acme/helper".wait_s',
            ">= 0",
        ),
        ({"agents": {"acme/helper": {"x": 1}}}, 'relay_server.agents."acme/helper".x', "unknown"),
    ],
)
def test_what_is_wrong_with_a_relay_is_named(table: dict[str, Any], key: str, what: str) -> None:
    problem = only(**RELAYING, relay_server=table)
    assert problem.key == key
    assert what in problem.what


def test_a_key_that_attaches_calls_nothing_unless_it_has_grants() -> None:
    keys = {
        "laptop": {"key": KEY, "attach": ["acme/*"]},
        "both": {"key": f"{KEY}2", "attach": ["acme/a"], "grants": {"acme/b": ["*"]}},
    }
    settings = made(agents=AGENTS, auth={"keys": keys})
    laptop, both = settings.auth.principals().values()
    assert laptop == Principal(id="laptop", token="laptop", roles=("attach:acme/*",))
    assert may_attach(laptop, "acme/x")
    assert not is_unrestricted(laptop)
    assert both.grants == (Grant("acme/b"),)


@pytest.mark.parametrize("pattern", ["acme", "acme/", "*", "acme/A", ""])
def test_what_may_be_attached_is_a_handle(pattern: str) -> None:
    found = problems(agents=AGENTS, auth={"keys": {"laptop": {"key": KEY, "attach": [pattern]}}})
    assert len(found) == 1
    assert found[0].startswith("auth.keys.laptop.attach[0]")
