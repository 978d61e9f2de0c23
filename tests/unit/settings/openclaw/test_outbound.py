"""The configuration of the outbound plugin, as it is in the file of its host: O-1."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.openclaw.documents import URL, accounts, loaded, refused, written

from trunkline.app.outbound import tool_config
from trunkline.config.secret import Secret
from trunkline.model.errors import ConfigError
from trunkline.remote.tool import parse_config
from trunkline.settings.openclaw.load import load_openclaw_targets

# The example in the plugin's own README.
README = {
    "enabled": True,
    "defaults": {
        "timeoutMs": 120000,
        "cardPath": "/.well-known/agent-card.json",
        "preferredTransports": ["JSONRPC", "HTTP+JSON"],
        "serviceParameters": {},
    },
    "targets": [
        {
            "alias": "support",
            "baseUrl": "https://support.example",
            "description": "Primary support lane",
            "tags": ["support"],
            "examples": ["Summarize this incident and propose next steps."],
            "default": True,
        }
    ],
    "taskHandles": {"ttlMs": 86400000, "maxEntries": 1000},
    "policy": {
        "acceptedOutputModes": [],
        "normalizeBaseUrl": True,
        "enforceSupportedTransports": True,
        "allowTargetUrlOverride": False,
    },
}


def plugin(config: Any, **entry: Any) -> dict[str, Any]:
    return {"plugins": {"entries": {"openclaw-a2a-outbound": {"config": config, **entry}}}}


def at(*targets: Any, **config: Any) -> dict[str, Any]:
    return plugin({"enabled": True, "targets": list(targets), **config})


@pytest.mark.parametrize(
    "config",
    [
        README,
        {"enabled": True},
        {
            "enabled": True,
            "defaults": {
                "timeoutMs": 5000,
                "maxStreamMs": 6000,
                "maxStreamEvents": 7,
                "cardPath": "/card.json",
                "preferredTransports": ["HTTP+JSON"],
                "serviceParameters": {"X-Key": "a-key-of-many"},
            },
            "targets": [{"alias": "a b", "baseUrl": URL, "headers": {"X-Own": "another-key"}}],
            "taskHandles": {"ttlMs": 1500, "maxEntries": 3, "durable": False},
            "policy": {
                "acceptedOutputModes": ["text/plain"],
                "normalizeBaseUrl": False,
                "enforceSupportedTransports": False,
                "allowTargetUrlOverride": True,
            },
        },
        {"enabled": True, "defaults": {"timeoutMs": "soon"}, "policy": 7, "taskHandles": []},
    ],
)
def test_o1_the_tool_is_told_what_the_plugin_is_told(tmp_path: Path, config: Any) -> None:
    document = plugin(config) | accounts(default={"publicBaseUrl": URL})
    told = tool_config(loaded(tmp_path, document).settings)
    expected = parse_config(config)
    for one, other in zip(told.targets, expected.targets, strict=True):
        assert (one.alias, one.url, one.card_path, one.transports) == (
            other.alias,
            other.url,
            other.card_path,
            other.transports,
        )
        assert (one.tags, one.examples, one.default, one.headers, one.description) == (
            other.tags,
            other.examples,
            other.default,
            other.headers,
            other.description,
        )
    assert (told.defaults, told.policy, told.task_handles, told.enabled) == (
        expected.defaults,
        expected.policy,
        expected.task_handles,
        True,
    )


@pytest.mark.parametrize(
    ("document", "is_on"),
    [
        (plugin({"enabled": True}), True),
        (plugin({"enabled": True}, enabled=True), True),
        (plugin({"enabled": True}, enabled=False), False),
        (plugin({"enabled": "yes"}), False),
        (plugin({}), False),
    ],
)
def test_o1_the_tool_is_there_where_the_plugin_turns_it_on(
    tmp_path: Path, document: Any, is_on: bool
) -> None:
    found = loaded(tmp_path, document | accounts(default={"publicBaseUrl": URL}))
    assert found.settings.remote.enabled is is_on
    said = any("remote_agent is off" in note for note in found.notes)
    assert said is not is_on


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({}, "targets must be an array"),
        ([7], "targets[0] must be an object"),
        ([{"baseUrl": URL}], "targets[0].alias must be a non-empty string"),
        ([{"alias": "a"}], "targets[0].baseUrl must be a non-empty string"),
        (
            [{"alias": "a", "baseUrl": URL}, {"alias": "a", "baseUrl": URL}],
            'targets contains duplicate alias "a"',
        ),
        (
            [
                {"alias": "a", "baseUrl": URL, "default": True},
                {"alias": "b", "baseUrl": URL, "default": True},
            ],
            'targets contains multiple default entries ("a" and "b")',
        ),
    ],
)
def test_o1_wrong_targets_are_told_as_the_plugin_does(
    tmp_path: Path, targets: Any, message: str
) -> None:
    assert refused(tmp_path, plugin({"enabled": True, "targets": targets})) == (
        f"{tmp_path}/openclaw.json: Invalid openclaw-a2a-outbound config: {message}"
    )


def test_other_faults_have_the_names_of_the_file(tmp_path: Path) -> None:
    where = "plugins.entries.openclaw-a2a-outbound.config"
    target = {"alias": "a", "baseUrl": "nowhere", "preferredTransports": ["GRPC"]}
    message = refused(tmp_path, at({"alias": "b", "baseUrl": URL}, target))
    assert f'{where}.targets[1].baseUrl = "nowhere": expected an absolute' in message
    assert f'{where}.targets[1].preferredTransports[0] = "GRPC": is a binding' in message
    message = refused(tmp_path, at(defaults={"serviceParameters": {"a b": "x"}}))
    assert f'{where}.defaults.serviceParameters."a b": cannot be the name' in message


def test_secrets_come_out_of_the_environment(tmp_path: Path) -> None:
    target = {"alias": "a", "baseUrl": URL, "headers": {"X-Key": "${A_KEY}"}}
    document = at(target) | {"other": "${NOT_OURS}"}
    found = loaded(tmp_path, document, environment={"A_KEY": "k3y"}).settings
    assert found.targets["a"].headers == {"X-Key": Secret("k3y")}


def test_a_file_of_ours_adds_to_it_and_wins(tmp_path: Path) -> None:
    config = tmp_path / "trunkline.toml"
    config.write_text(
        '[targets.support.credentials]\nkind = "bearer"\ntoken = "t0ken-of-support"\n'
        '[targets.more]\nbase_url = "https://more.example"\n[remote]\ntimeout_s = 1.0\n'
    )
    found = loaded(tmp_path, plugin(README), config=config).settings
    assert list(found.targets) == ["support", "more"]
    assert found.targets["support"].credentials is not None
    assert (found.remote.timeout_s, found.remote.max_handles) == (1.0, 1000)


def test_a_plugin_that_can_call_nobody_is_not_enough(tmp_path: Path) -> None:
    assert "agents: no agent is configured" in refused(tmp_path, at())
    assert loaded(tmp_path, at(policy={"allowTargetUrlOverride": True})).settings.agents == {}


def test_accounts_are_served_beside_it(tmp_path: Path) -> None:
    both = plugin(README) | accounts(default={"publicBaseUrl": URL})
    found = loaded(tmp_path, both).settings
    assert (list(found.agents), list(found.targets)) == (["openclaw/default"], ["support"])


def test_to_call_others_the_rest_of_the_file_need_not_be_right(tmp_path: Path) -> None:
    document = plugin(README) | accounts(default={"agentStyle": "no such style"})
    document["a2a"] = {
        "server": {"mode": "relay", "auth": {"apiKey": "${NOT_SET}"}},
        "client": {"agents": {"peer": {"url": "https://peer.example"}}},
    }
    file = written(tmp_path, document)
    settings = load_openclaw_targets(file, environment={})
    assert (list(settings.targets), settings.agents) == (["peer", "support"], {})


def test_a_file_that_names_nobody_to_call_is_told_so(tmp_path: Path) -> None:
    file = written(tmp_path, accounts(default={"publicBaseUrl": URL}))
    with pytest.raises(ConfigError, match=r"there is nobody to call\. Add a target below"):
        load_openclaw_targets(file, environment={})
    allowed = {"remote": {"allow_target_url": True}}
    assert load_openclaw_targets(file, overrides=allowed, environment={}).targets == {}


def test_faults_are_told_alike_to_call_others(tmp_path: Path) -> None:
    file = written(tmp_path, at({"alias": "a", "baseUrl": "nowhere"}))
    with pytest.raises(ConfigError, match=r"config\.targets\[0\]\.baseUrl"):
        load_openclaw_targets(file, environment={})
    file = written(tmp_path, plugin({"enabled": True, "targets": 7}))
    with pytest.raises(ConfigError, match="targets must be an array"):
        load_openclaw_targets(file, environment={})


def test_d34_the_plugin_has_one_tool_and_the_design_its_own(tmp_path: Path) -> None:
    assert loaded(tmp_path, plugin(README)).settings.remote.tools == ("remote_agent",)
    client = {"a2a": {"client": {"agents": {"peer": {"url": "https://peer.example"}}}}}
    both = ("remote_agent", "a2a_send")
    assert loaded(tmp_path, client).settings.remote.tools == both
    assert loaded(tmp_path, client | plugin(README)).settings.remote.tools == both
