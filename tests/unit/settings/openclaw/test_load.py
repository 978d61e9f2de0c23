"""Accounts as agents (I-2, I-3), and what is said at start."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.openclaw.documents import KEY, URL, accounts, loaded, refused, written

from trunkline.backends.python.settings import PythonBackend
from trunkline.settings import AgentSettings
from trunkline.settings.agent_card import SkillSettings
from trunkline.settings.openclaw.load import load_openclaw
from trunkline.settings.profiles import preset
from trunkline.version import VERSION

ELSEWHERE = {"agentCardPath": "/b/card", "jsonRpcPath": "/b/rpc"}
TOML_KEY = f'[auth.keys.me]\nkey = "{KEY}"\n'


def agent(folder: Path, **keys: Any) -> AgentSettings:
    settings = loaded(folder, accounts(default={"publicBaseUrl": URL, **keys})).settings
    return settings.agents["openclaw/default"]


def test_i2_an_account_is_an_agent(tmp_path: Path) -> None:
    made = agent(
        tmp_path,
        label="Mine",
        description="Answers",
        defaultAgentId="ops",
        protocolVersion="0.3.1",
        agentCardPath="/card",
        jsonRpcPath="/rpc",
        maxBodyBytes=100,
        defaultInputModes=["text/plain"],
        defaultOutputModes=["image/png"],
        agentStyle="task-generating",
        originRoutingPolicy="legacy-origin-routing",
        skills=[{"id": "s", "name": "S", "tags": ["t"], "examples": ["e"]}],
    )
    assert (made.name, made.description, made.version) == ("Mine", "Answers", VERSION)
    assert (made.agent_id, made.account_id) == ("ops", "default")
    assert made.public_url == URL
    assert made.v03_protocol_version == "0.3.1"
    assert (made.agent_card_path, made.jsonrpc_path) == ("/card", "/rpc")
    assert made.max_body_bytes == 100
    assert (made.input_modes, made.output_modes) == (("text/plain",), ("image/png",))
    assert made.skills == (
        SkillSettings(
            id="s",
            name="S",
            description="S",
            tags=("t",),
            examples=("e",),
            input_modes=("text/plain",),
            output_modes=("image/png",),
        ),
    )
    assert made.own_profile() == preset(
        "openclaw-inbound",
        agent_style="task-generating",
        origin_routing_policy="legacy-origin-routing",
    )


def test_i2_the_defaults_of_an_agent(tmp_path: Path) -> None:
    made = agent(tmp_path)
    assert made.name == "default"
    assert made.description == "Expose an OpenClaw agent as an inbound A2A endpoint."
    assert made.agent_id == "main"
    assert made.own_profile() == preset("openclaw-inbound")
    assert made.store is not None
    assert (made.store.kind, made.retention_s) == ("memory", 0)
    assert made.default
    assert not made.unavailable


def test_a_path_prefix_is_kept(tmp_path: Path) -> None:
    assert agent(tmp_path, publicBaseUrl=f"{URL}/tenant/").public_url == f"{URL}/tenant"


def test_i3_the_default_account_is_the_default_agent(tmp_path: Path) -> None:
    both = accounts(a={"enabled": False}, b={"publicBaseUrl": URL, **ELSEWHERE}, c={})
    settings = loaded(tmp_path, both).settings
    assert [*settings.agents] == ["openclaw/b", "openclaw/c"]
    assert settings.default_agent() == "openclaw/b"


def test_i3_an_account_that_is_not_configured_does_not_run(tmp_path: Path) -> None:
    found = loaded(tmp_path, accounts(a={}, b={"enabled": False}))
    message = "publicBaseUrl is required to advertise a valid agent card."
    assert found.settings.agents["openclaw/a"].unavailable == message
    assert f'account "a" does not run. {message}' in found.notes
    assert 'account "b" does not run. This A2A inbound account is disabled.' in found.notes
    assert found.settings.stores() == []


def test_i3_all_disabled_is_nothing_to_serve(tmp_path: Path) -> None:
    assert refused(tmp_path, accounts(b={"enabled": False}, a={"enabled": False})) == (
        f"{tmp_path}/openclaw.json: no account is enabled. channels.a2a.accounts.a: This A2A "
        "inbound account is disabled. Set enabled: true."
    )


@pytest.mark.parametrize("document", [{}, accounts(), {"channels": {"telegram": {}}}])
def test_a_file_without_a2a_says_what_to_add(tmp_path: Path, document: object) -> None:
    assert refused(tmp_path, document).endswith(
        "there is nothing to serve. Add an account below channels.a2a.accounts, or the section "
        "a2a.server."
    )


def test_ids_that_look_alike_get_handles_of_their_own(tmp_path: Path) -> None:
    settings = loaded(tmp_path, accounts(**{"A b": ELSEWHERE, "a-b": {}})).settings
    assert {handle: agent.account_id for handle, agent in settings.agents.items()} == {
        "openclaw/a-b": "A b",
        "openclaw/a-b-2": "a-b",
    }


def test_errors_name_the_file_and_are_exact(tmp_path: Path) -> None:
    assert refused(tmp_path, accounts(default={"agentStyle": "x"})) == (
        f"{tmp_path}/openclaw.json: channels.a2a.accounts.default.agentStyle must be one of "
        'hybrid, task-generating; received "x".'
    )


def test_our_own_rules_speak_of_the_keys_of_the_file(tmp_path: Path) -> None:
    message = refused(tmp_path, accounts(default={"publicBaseUrl": URL, "jsonRpcPath": "/healthz"}))
    assert message.startswith(
        f"{tmp_path}/openclaw.json: channels.a2a.accounts.default.jsonRpcPath = "
        '"/healthz": is an address of the gateway itself.'
    )


def test_references_are_filled_in_where_the_file_is_ours(tmp_path: Path) -> None:
    document = accounts(default={"publicBaseUrl": "${URL}", "label": "costs $${5"})
    document["channels"]["telegram"] = {"token": "${NOT_SET_HERE}"}
    settings = loaded(tmp_path, document, environment={"URL": URL}).settings
    made = settings.agents["openclaw/default"]
    assert (made.public_url, made.name) == (URL, "costs ${5")
    message = refused(tmp_path, document)
    assert "channels.a2a.accounts.default.publicBaseUrl: the environment variable URL" in message


def test_without_a_target_the_echo_agent_answers_and_it_is_said(tmp_path: Path) -> None:
    notes = loaded(tmp_path, accounts(default={"publicBaseUrl": URL})).notes
    assert notes[0].startswith("no agent of yours is behind this: the echo agent answers.")


def test_a_target_is_behind_every_account(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    both = accounts(a={"publicBaseUrl": URL}, b={"publicBaseUrl": URL, **ELSEWHERE})
    found = loaded(tmp_path, both, target=f"{tmp_path}/mine.py:answer")
    backend = PythonBackend(target=f"{tmp_path}/mine.py:answer")
    assert [agent.backend for agent in found.settings.agents.values()] == [backend, backend]
    assert not any("echo" in note for note in found.notes)


def test_without_keys_it_is_open_and_it_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, accounts(default={"publicBaseUrl": URL}))
    assert found.settings.allows_anonymous()
    [warning] = [note for note in found.notes if "no key is required" in note]
    assert URL in warning
    assert "add [auth.keys.NAME] with a key to a TOML file and give it with --config" in warning


def test_a_loopback_url_needs_no_warning(tmp_path: Path) -> None:
    found = loaded(tmp_path, accounts(default={"publicBaseUrl": "http://127.0.0.1:8642"}))
    assert found.settings.allows_anonymous()
    assert not any("no key is required" in note for note in found.notes)


def test_an_open_bind_without_keys_is_refused(tmp_path: Path) -> None:
    message = refused(
        tmp_path,
        accounts(default={"publicBaseUrl": URL}),
        overrides={"server": {"host": "0.0.0.0"}},
    )
    assert 'server.host = "0.0.0.0": other machines could call the gateway' in message


def test_a_toml_file_adds_keys_server_store_and_agents(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text(
        f'{TOML_KEY}[server]\nport = 9\n[store]\npath = "x.db"\n'
        '[agents."a/b"]\nname = "B"\ndefault = true\nbackend = { kind = "echo" }\n'
    )
    found = loaded(tmp_path, accounts(default={"publicBaseUrl": URL, **ELSEWHERE}), config=file)
    settings = found.settings
    assert not settings.allows_anonymous()
    assert not any("no key is required" in note for note in found.notes)
    assert settings.server.port == 9
    # Where a store is configured, an account without one of its own uses it.
    assert settings.agents["openclaw/default"].store is None
    assert settings.store.path == f"{tmp_path}/x.db"
    assert settings.default_agent() == "a/b"


def test_what_a_toml_file_says_about_an_account_wins(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text('[agents."openclaw/default"]\ncancel_terminal = "error"\n')
    found = loaded(tmp_path, accounts(default={"publicBaseUrl": URL}), config=file)
    assert found.settings.agents["openclaw/default"].cancel_terminal == "error"


def test_a_session_store_is_not_used_and_it_is_said(tmp_path: Path) -> None:
    document = accounts(default={"publicBaseUrl": URL, "sessionStore": "/x"})
    assert (
        'account "default": sessionStore is not used; sessions are kept with tasks.'
        in loaded(tmp_path, document).notes
    )


def test_the_environment_is_that_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBLIC", URL)
    file = written(tmp_path, accounts(default={"publicBaseUrl": "${PUBLIC}"}))
    assert load_openclaw(file).settings.agents["openclaw/default"].public_url == URL


def test_i2_a_folder_of_json_files_is_the_accounts_own(tmp_path: Path) -> None:
    made = agent(tmp_path, taskStore={"kind": "json-file", "path": f"{tmp_path}/x/../tasks/"})
    assert made.store is not None
    assert (made.store.kind, made.store.path) == ("json-file", f"{tmp_path}/tasks")


def test_who_owns_the_tasks_of_the_plugin_is_said_in_a_toml_file(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text(f'{TOML_KEY}[agents."openclaw/default".store]\nadopt_as = "me"\n')
    store = {"kind": "json-file", "path": f"{tmp_path}/tasks"}
    document = accounts(default={"publicBaseUrl": URL, "taskStore": store})
    found = loaded(tmp_path, document, config=file).settings.agents["openclaw/default"].store
    assert found is not None
    assert (found.kind, found.adopt_as) == ("json-file", "me")
