"""The section `a2a` of the integration design: D-10, D-14 to D-18, D-23, D-24, D-31, D-33."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.openclaw.documents import KEY, URL, accounts, loaded, refused

from trunkline.config.called_agents import BearerCredentials
from trunkline.config.secret import Secret
from trunkline.settings import AgentSettings
from trunkline.settings.agent_card import SkillSettings
from trunkline.settings.openclaw.load import OpenClaw
from trunkline.settings.profiles import preset

AUTH = {"scheme": "bearer", "apiKey": KEY}
RELAY = {
    "url": "wss://relay.example.com/agent",
    "tenant": "personal",
    "agentId": "zaf",
    "token": "${A2A_RELAY_TOKEN}",
}
SET = {"A2A_RELAY_TOKEN": "the-token"}


def design(*, a2a: Any = None, more: Any = None, **server: Any) -> dict[str, Any]:
    return {"a2a": {"server": {"publicUrl": URL, **server}, **(a2a or {})}, **(more or {})}


def agent(found: OpenClaw) -> AgentSettings:
    return found.settings.agents["openclaw-design/main"]


def skill(name: str, title: str = "", description: str = "") -> SkillSettings:
    title = title or name
    return SkillSettings(id=name, name=title, description=description or title)


def test_d10_direct_is_the_default_mode_and_a2a_the_default_path(tmp_path: Path) -> None:
    found = loaded(tmp_path, design())
    made = agent(found)
    assert (made.public_url, made.jsonrpc_path, made.rest_path) == (URL, "/a2a", "/a2a/rest")
    assert made.agent_card_path == "/.well-known/agent-card.json"
    assert made.default
    assert made.own_profile() == preset("openclaw-design")
    assert (made.agent_id, made.account_id) == ("main", "default")


def test_d10_direct_with_a_path_of_its_own(tmp_path: Path) -> None:
    made = agent(loaded(tmp_path, design(mode="direct", path="bots/mine/")))
    assert (made.jsonrpc_path, made.rest_path) == ("/bots/mine", "/bots/mine/rest")


def test_d10_direct_at_the_root(tmp_path: Path) -> None:
    made = agent(loaded(tmp_path, design(path="/")))
    assert (made.jsonrpc_path, made.rest_path) == ("/", "/rest")


def test_an_at_in_a_path_is_no_user(tmp_path: Path) -> None:
    url = "https://agents.example.com/@zaf"
    assert agent(loaded(tmp_path, design(publicUrl=url))).public_url == url


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            {"publicUrl": None},
            'a2a.server.publicUrl is required in mode "direct"; give the URL at which others '
            'reach this gateway, for example "https://my-agent.example.com".',
        ),
        *(
            (
                {"publicUrl": url},
                "a2a.server.publicUrl must be an http or https URL without user and password, "
                'for example "https://my-agent.example.com".',
            )
            for url in ("my-agent", "ftp://x", "https://me:secret@x.example")
        ),
        ({"publicUrl": 7}, "a2a.server.publicUrl must be a string."),
        ({"path": 7}, "a2a.server.path must be a string."),
        ({"enabled": "yes"}, "a2a.server.enabled must be true or false."),
        (
            {"mode": "x"},
            'a2a.server.mode must be one of direct, relay, both; received "x".',
        ),
        *(
            (
                {"mode": mode},
                f'a2a.server.relay is required in mode "{mode}": an object with url, tenant, '
                "agentId, token.",
            )
            for mode in ("relay", "both")
        ),
        (
            {"mode": "both", "publicUrl": None},
            'a2a.server.publicUrl is required in mode "both"; give the URL at which others '
            'reach this gateway, for example "https://my-agent.example.com".',
        ),
        ({"mode": "relay", "relay": {}}, 'a2a.server.relay.url is required in mode "relay".'),
        (
            {"mode": "relay", "relay": RELAY | {"token": ""}},
            'a2a.server.relay.token is required in mode "relay". Best as "${A2A_RELAY_TOKEN}".',
        ),
        (
            {"mode": "relay", "relay": RELAY | {"agentId": 7}},
            "a2a.server.relay.agentId must be a string.",
        ),
        (
            {"mode": "relay", "relay": RELAY | {"agent": "x"}},
            "a2a.server.relay.agent is not known. Known here: url, tenant, agentId, token; the "
            "table [relay] of a TOML file has more, and is given with --config.",
        ),
        (
            {"mode": "relay", "relay": RELAY | {"url": "https://relay.example.com"}},
            'a2a.server.relay.url = "https://relay.example.com": is no address of a WebSocket. '
            'Write "wss://relay.example.com/agent".',
        ),
        (
            {"mode": "relay", "relay": RELAY | {"url": "ws://relay.example.com/agent"}},
            'a2a.server.relay.url = "ws://relay.example.com/agent": would send the token '
            "unencrypted. Use wss://; ws:// is for this machine alone.",
        ),
        (
            {"mode": "relay", "relay": RELAY | {"agentId": "Zaf"}},
            'a2a.server.relay.agentId: "Zaf" cannot be the name of an agent. Use lower-case '
            "letters, digits and hyphens.",
        ),
        ({"auth": "key"}, "a2a.server.auth must be an object with scheme and apiKey."),
        (
            {"auth": {"scheme": "basic", "apiKey": KEY}},
            'a2a.server.auth.scheme must be one of bearer, apiKey; received "basic".',
        ),
        (
            {"auth": {"scheme": "bearer"}},
            "a2a.server.auth.apiKey is required; without it nobody could call. "
            'Best as "${NAME_OF_VARIABLE}".',
        ),
    ],
    ids=str,
)
def test_d10_d33_what_is_wrong_is_named_with_a_remedy(
    tmp_path: Path, server: dict[str, Any], message: str
) -> None:
    found = refused(tmp_path, design(**server), environment=SET)
    assert found == f"{tmp_path}/openclaw.json: {message}"


def test_d11_the_mode_relay_dials_out_alone(tmp_path: Path) -> None:
    found = loaded(tmp_path, design(mode="relay", publicUrl=None, relay=RELAY), environment=SET)
    relay = found.settings.relay
    assert relay is not None
    assert relay.token == Secret("the-token", variable="A2A_RELAY_TOKEN")
    assert (relay.url, relay.mode) == (RELAY["url"], "relay")
    default = found.settings.default_agent()
    assert relay.handles(default) == {"personal/zaf": "openclaw-design/main"}
    assert agent(found).public_url == ""
    assert not found.settings.is_exposed()


def test_d12_d13_the_mode_both_is_at_its_own_address_as_well(tmp_path: Path) -> None:
    found = loaded(tmp_path, design(mode="both", relay=RELAY), environment=SET)
    assert found.settings.relay is not None
    assert found.settings.relay.mode == "both"
    assert agent(found).public_url == URL


def test_a_toml_file_says_more_of_the_relay(tmp_path: Path) -> None:
    more = tmp_path / "more.toml"
    more.write_text('[relay]\nstandby = ["wss://second.example.com/agent"]\n')
    found = loaded(tmp_path, design(mode="relay", relay=RELAY), environment=SET, config=more)
    assert found.settings.relay is not None
    assert found.settings.relay.standby == ("wss://second.example.com/agent",)
    more.write_text('[relay]\nstandby = ["https://second.example.com/agent"]\n')
    message = refused(tmp_path, design(mode="relay", relay=RELAY), environment=SET, config=more)
    assert "relay.standby[0]" in message


@pytest.mark.parametrize(
    "off", [{"a2a": {"enabled": False}}, {"enabled": False}, {"mode": "relay", "enabled": False}]
)
def test_a_server_that_is_switched_off_is_not_served(tmp_path: Path, off: dict[str, Any]) -> None:
    assert "there is nothing to serve" in refused(tmp_path, design(**off))


def test_d14_skills_and_exposed_tools(tmp_path: Path) -> None:
    more = {
        "skills": [
            {"name": "write", "displayName": "Write", "description": "Writes letters"},
            {"name": "read"},
            {"displayName": "Nameless"},
            "odd",
        ],
        "tools": [
            {"name": "shell", "expose": False, "description": "Runs commands"},
            {"name": "search", "displayName": "Search", "description": "Looks it up"},
            {"name": "clock", "expose": True, "description": "Tells the time"},
        ],
    }
    assert agent(loaded(tmp_path, design(more=more))).skills == (
        skill("write", "Write", "Writes letters"),
        skill("read"),
        skill("search", "Search"),
        skill("clock", description="Tells the time"),
    )


def test_d14_objects_of_the_same_names_are_something_else(tmp_path: Path) -> None:
    more = {"skills": {"entries": {}}, "tools": {"allow": ["exec"]}}
    assert agent(loaded(tmp_path, design(more=more))).skills == ()


def test_d18_ids_are_unique_and_the_first_one_stays(tmp_path: Path) -> None:
    more = {"skills": [{"name": "a", "displayName": "Skill"}], "tools": [{"name": "a"}]}
    assert agent(loaded(tmp_path, design(more=more))).skills == (skill("a", "Skill"),)


def test_d18_descriptions_of_tools_are_for_who_has_a_key(tmp_path: Path) -> None:
    tools = [{"name": "search", "description": "Looks in /srv/secret"}, {"name": "wait"}]
    more = {"tools": tools}
    public = agent(loaded(tmp_path, design(more=more)))
    assert public.skills == (skill("search"), skill("wait"))
    assert public.extended_card is None
    extended = agent(loaded(tmp_path, design(more=more, auth=AUTH)))
    assert extended.skills == (skill("search"), skill("wait"))
    assert extended.extended_card is not None
    described = skill("search", description="Looks in /srv/secret")
    assert extended.extended_card.skills == (described,)


@pytest.mark.parametrize(
    ("more", "a2a", "name", "description"),
    [
        ({}, {}, "OpenClaw Agent", "OpenClaw Agent"),
        ({}, {"agentCard": {"name": "Card", "description": "By card"}}, "Card", "By card"),
        (
            {"agent": {"name": "Zaf", "description": "By agent", "model": "x"}},
            {"agentCard": {"name": "Card", "description": "By card"}},
            "Zaf",
            "By agent",
        ),
    ],
)
def test_d15_name_and_description(
    tmp_path: Path, more: Any, a2a: Any, name: str, description: str
) -> None:
    made = agent(loaded(tmp_path, design(more=more, a2a=a2a)))
    assert (made.name, made.description, made.version) == (name, description, "1.0.0")


def test_d15_the_card_overrides_what_is_generated(tmp_path: Path) -> None:
    card = {
        "version": "2.0",
        "documentationUrl": "https://docs.example",
        "iconUrl": "https://docs.example/icon.png",
        "provider": {"organization": "Acme", "url": "https://acme.example"},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/markdown"],
        "skills": [{"id": "own", "name": "Own", "tags": ["x"], "inputModes": ["text/plain"]}],
    }
    more = {"tools": [{"name": "search", "description": "D"}]}
    made = agent(loaded(tmp_path, design(a2a={"agentCard": card}, more=more, auth=AUTH)))
    assert made.version == "2.0"
    assert made.documentation_url == "https://docs.example"
    assert made.icon_url == "https://docs.example/icon.png"
    assert made.provider is not None
    assert made.provider.organization == "Acme"
    assert (made.input_modes, made.output_modes) == (("text/plain",), ("text/markdown",))
    own = SkillSettings(id="own", name="Own", tags=("x",), input_modes=("text/plain",))
    assert made.skills == (own,)
    assert made.extended_card is None


def test_d15_what_follows_from_what_is_served_is_not_overridden(tmp_path: Path) -> None:
    message = refused(tmp_path, design(a2a={"agentCard": {"url": "https://else.example"}}))
    assert "a2a.agentCard.url cannot be set; the gateway writes it from what it serves." in message


def test_d15_a_bad_override_is_named_as_in_the_file(tmp_path: Path) -> None:
    message = refused(tmp_path, design(a2a={"agentCard": {"documentationUrl": "x"}}))
    assert 'a2a.agentCard.documentationUrl = "x": expected an absolute' in message


def test_d16_streaming_and_modes(tmp_path: Path) -> None:
    made = agent(loaded(tmp_path, design()))
    assert made.streaming
    assert made.input_modes is made.output_modes is None, "those of the agent, or the default"
    assert not agent(loaded(tmp_path, design(a2a={"streaming": False}))).streaming
    assert "a2a.streaming must be true or false." in refused(tmp_path, design(a2a={"streaming": 1}))


@pytest.mark.parametrize("scheme", ["bearer", "apiKey"])
@pytest.mark.parametrize("place", ["server", "a2a"])
def test_d17_d33_one_key_lets_one_principal_in(tmp_path: Path, scheme: str, place: str) -> None:
    auth = {"auth": {"scheme": scheme, "apiKey": "${A2A_KEY}"}}
    document = design(**auth) if place == "server" else design(a2a=auth)
    found = loaded(tmp_path, document, environment={"A2A_KEY": KEY})
    assert [each.id for each in found.settings.auth.principals().values()] == ["openclaw"]
    assert found.settings.auth.schemes == (scheme,)
    assert not found.settings.allows_anonymous()
    assert not any("no key is required" in note for note in found.notes)
    assert KEY not in repr(found)


def test_d33_a_short_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    message = refused(tmp_path, design(auth={"scheme": "bearer", "apiKey": "sesame"}))
    assert "a2a.server.auth.apiKey = ***: shorter than 16 characters." in message
    assert "sesame" not in message


def test_d33_without_auth_it_is_open_and_it_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, design())
    assert found.settings.allows_anonymous()
    assert any(f"anyone who reaches {URL} may call" in note for note in found.notes)


def test_d23_tasks_are_kept_in_sqlite_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = loaded(tmp_path, design()).settings.store
    assert (store.kind, store.path) == ("sqlite", f"{tmp_path}/.openclaw/data/a2a-tasks.db")
    elsewhere = {"store": {"path": "/elsewhere/tasks.db"}}
    assert loaded(tmp_path, design(), overrides=elsewhere).settings.store.path == (
        "/elsewhere/tasks.db"
    )


def test_d24_d31_retention_and_deadline(tmp_path: Path) -> None:
    made = agent(loaded(tmp_path, design()))
    assert (made.retention_s, made.task_deadline_s) == (7 * 86400, 30 * 60)
    tasks = {"tasks": {"ttlDays": 1, "timeoutMinutes": 0.5}}
    made = agent(loaded(tmp_path, design(a2a=tasks)))
    assert (made.retention_s, made.task_deadline_s) == (86400, 30)
    for wrong in (0, -1, "7", True):
        message = refused(tmp_path, design(a2a={"tasks": {"ttlDays": wrong}}))
        assert "a2a.tasks.ttlDays must be a number greater than 0." in message


def test_d34_the_agents_of_the_client_are_targets(tmp_path: Path) -> None:
    peers = {"peer": {"url": "https://peer.example", "token": KEY}, "open": {"url": URL}}
    client: Any = {"client": {"agents": peers}}
    targets = loaded(tmp_path, design(a2a=client)).settings.targets
    assert targets["peer"].base_url == "https://peer.example"
    assert targets["peer"].credentials == BearerCredentials(token=Secret(KEY))
    assert targets["open"].credentials is None
    client["client"]["enabled"] = False
    assert loaded(tmp_path, design(a2a=client)).settings.targets == {}


def test_d34_a_client_alone_is_enough_to_call_others(tmp_path: Path) -> None:
    alone = {"a2a": {"client": {"agents": {"peer": {"url": "https://peer.example"}}}}}
    settings = loaded(tmp_path, alone).settings
    assert (list(settings.agents), list(settings.targets)) == ([], ["peer"])


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ("https://peer.example", "a2a.client.agents.peer must be an object with a url."),
        ({}, "a2a.client.agents.peer.url is required."),
        ({"url": 1}, "a2a.client.agents.peer.url must be a string."),
        ({"url": "peer"}, 'a2a.client.agents.peer.url = "peer": expected an absolute http'),
    ],
)
def test_d34_a_wrong_peer_is_named(tmp_path: Path, peer: Any, message: str) -> None:
    assert message in refused(tmp_path, design(a2a={"client": {"agents": {"peer": peer}}}))


def test_accounts_and_server_in_one_file(tmp_path: Path) -> None:
    both = design(path="/design") | accounts(default={"publicBaseUrl": URL})
    settings = loaded(tmp_path, both).settings
    assert [*settings.agents] == ["openclaw/default", "openclaw-design/main"]
    assert settings.default_agent() == "openclaw/default"
    assert settings.agents["openclaw-design/main"].agent_card_path == ""
    assert settings.agents["openclaw-design/main"].account_id == "openclaw-design/main"


def test_what_is_not_read_may_refer_to_what_is_not_set(tmp_path: Path) -> None:
    relay = {"url": "wss://relay.example", "token": "${A2A_RELAY_TOKEN}"}
    client = {"enabled": False, "agents": {"peer": {"token": "${PEER_TOKEN}"}}}
    more = {
        "agent": {"name": "Zaf", "model": "${MODEL}"},
        "tools": [{"name": "search", "apiKey": "${SEARCH_KEY}"}],
    }
    assert agent(loaded(tmp_path, design(a2a={"client": client}, more=more, relay=relay))).name
    off = design(mode="relay", enabled=False, relay=relay) | accounts(a={"publicBaseUrl": URL})
    assert loaded(tmp_path, off).settings.relay is None
    assert "A2A_RELAY_TOKEN" in refused(tmp_path, design(mode="relay", relay=relay))


def test_an_account_of_any_name_stands_beside_the_server(tmp_path: Path) -> None:
    both = design() | accounts(a2a={"publicBaseUrl": URL, "agentCardPath": "/x"}, main={})
    both["channels"]["a2a"]["accounts"]["main"] = {"enabled": False}
    settings = loaded(tmp_path, both).settings
    assert [*settings.agents] == ["openclaw/a2a", "openclaw-design/main"]


@pytest.mark.parametrize("place", ["server", "a2a"])
def test_d07_agent_and_account_may_be_named(tmp_path: Path, place: str) -> None:
    ids: Any = {"agentId": "zaf", "accountId": "home"}
    made = agent(loaded(tmp_path, design(**ids) if place == "server" else design(a2a=ids)))
    assert (made.agent_id, made.account_id) == ("zaf", "home")


def test_d07_an_account_belongs_to_one(tmp_path: Path) -> None:
    both = design(path="/design", accountId="default") | accounts(default={"publicBaseUrl": URL})
    assert "a2a.server.accountId" in refused(tmp_path, both)


@pytest.mark.parametrize("key", ["agentId", "accountId"])
def test_d07_an_id_that_is_no_text_is_named(tmp_path: Path, key: str) -> None:
    wrong: Any = {key: 7}
    assert f"a2a.server.{key} must be a string." in refused(tmp_path, design(**wrong))
