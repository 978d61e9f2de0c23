from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.documents import made

from trunkline.app.outbound import open_tool, target_for, tool_config
from trunkline.model.errors import ConfigError
from trunkline.remote import ApiKey, Bearer, ClientCredentials
from trunkline.remote.tool import ToolConfig
from trunkline.settings import Settings
from trunkline.settings.stores import data_dir
from trunkline.settings.targets import handles_path

TARGETS: dict[str, Any] = {
    "support": {
        "base_url": "https://support.example.com",
        "default": True,
        "tags": ["support"],
        "headers": {"X-Team": "platform"},
        "credentials": {"kind": "bearer", "token": "t0ken-of-support"},
    },
    "billing": {
        "base_url": "https://agents.example.com/billing",
        "card_path": "/card.json",
        "transports": ["HTTP+JSON"],
        "a2a_version": "0.3",
        "timeout_s": 5.0,
        "credentials": {"kind": "api-key", "key": "k3y-of-billing", "header": "X-Key"},
    },
}


def settings(**sections: Any) -> Settings:
    return made(**{"targets": TARGETS, **sections})


def test_nothing_said_is_what_the_tool_has_by_itself() -> None:
    assert tool_config(made()) == ToolConfig(enabled=True)


def test_the_tool_is_told_what_the_file_says() -> None:
    remote = {
        "timeout_s": 7.0,
        "max_stream_s": 8.0,
        "headers": {"X-Org": "acme"},
        "accepted_output_modes": ["text/plain"],
        "allow_target_url": True,
        "handle_ttl_s": 9.0,
        "max_handles": 10,
        "durable_handles": False,
    }
    config = tool_config(settings(remote=remote))
    assert config.defaults.timeout_ms == 7000
    assert config.defaults.max_stream_ms == 8000
    assert config.defaults.service_parameters == {"X-Org": "acme"}
    assert config.policy.accepted_output_modes == ("text/plain",)
    assert config.policy.allow_target_url_override
    handles = config.task_handles
    assert (handles.ttl_ms, handles.max_entries, handles.durable) == (9000, 10, False)
    assert config.aliases == ("support", "billing")
    assert config.default_target is not None
    assert config.default_target.alias == "support"


def test_an_alias_is_a_target_with_all_that_is_configured() -> None:
    billing = target_for(settings(), "billing")
    assert billing.url == "https://agents.example.com/billing"
    assert billing.card_url == "https://agents.example.com/billing/card.json"
    assert (billing.transports, billing.version, billing.timeout_s) == (("HTTP+JSON",), "0.3", 5.0)
    assert billing.credentials == ApiKey(key="k3y-of-billing", header="X-Key")
    support = target_for(settings(remote={"headers": {"X-Org": "acme"}, "timeout_s": 3.0}), "")
    assert support.credentials == Bearer("t0ken-of-support")
    assert support.headers == {"X-Org": "acme", "X-Team": "platform"}
    assert support.timeout_s == 3.0


def test_oauth2_is_the_flow_of_the_client() -> None:
    oauth = {
        "kind": "oauth2",
        "token_url": "https://login.example.com/token",
        "client_id": "us",
        "client_secret": "s3cret-of-ours",
        "scopes": ["call"],
        "audience": "them",
    }
    targets = {"x": {"base_url": "https://x.example", "credentials": oauth}}
    assert target_for(made(targets=targets), "x").credentials == ClientCredentials(
        token_url="https://login.example.com/token",
        client_id="us",
        client_secret="s3cret-of-ours",
        scopes=("call",),
        audience="them",
    )


def test_the_url_of_a_target_means_the_target() -> None:
    found = target_for(settings(), "https://SUPPORT.example.com:443/")
    assert found.alias == "support"


def test_any_other_url_gets_no_key_of_ours() -> None:
    remote = {"headers": {"X-Org": "acme"}, "card_path": "/card.json"}
    found = target_for(settings(remote=remote), "http://127.0.0.1:8642/x")
    assert (found.alias, found.headers, found.credentials) == ("", {}, None)
    assert found.card_url == "http://127.0.0.1:8642/x/card.json"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "suport",
            'there is no target "suport". Did you mean "support"? Known: support, billing.',
        ),
        (
            "example.com/agent",
            'there is no target "example.com/agent". For a URL, write its scheme: '
            '"https://example.com/agent". Known: support, billing.',
        ),
        ("ftp://x", '"ftp://x" is not the URL of an agent.'),
        ("https://me:pw@x", '"https://***@x" is not the URL of an agent.'),
    ],
)
def test_a_name_that_means_nothing_says_what_does(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        target_for(settings(), name)
    assert caught.value.message.startswith(message)


def test_without_targets_there_is_no_default() -> None:
    with pytest.raises(ConfigError, match="no target is named and none is the default"):
        target_for(made(), "")
    with pytest.raises(ConfigError, match="None is configured"):
        target_for(made(), "x")


def test_two_targets_at_one_url_are_told_apart_by_alias() -> None:
    twice = {"a": {"base_url": "https://x.example"}, "b": {"base_url": "https://x.example/"}}
    with pytest.raises(ConfigError, match="Name one of them: a, b"):
        target_for(made(targets=twice), "https://x.example")
    assert target_for(made(targets=twice), "b").alias == "b"


def test_handles_are_beside_the_database(tmp_path: Path) -> None:
    beside = made(store={"path": str(tmp_path / "x.db")})
    assert handles_path(beside.remote, beside.store) == tmp_path / "handles.db"
    memory = made(store={"kind": "memory"})
    assert handles_path(memory.remote, memory.store) == data_dir() / "handles.db"
    own = made(remote={"handles_path": str(tmp_path / "h.db")})
    assert handles_path(own.remote, own.store) == tmp_path / "h.db"


async def test_handles_outlive_the_tool_in_a_private_folder(tmp_path: Path) -> None:
    own = settings(store={"path": str(tmp_path / "new" / "x.db")})
    unknown = {"action": "status", "task_handle": "rah_1"}
    async with open_tool(own) as tool:
        error = (await tool(unknown))["error"]
    assert (error["code"], error["details"]["restartInvalidatesHandles"]) == (
        "UNKNOWN_TASK_HANDLE",
        False,
    )
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_a_tool_that_is_off_is_not_opened() -> None:
    with pytest.raises(ConfigError, match="remote_agent is off"):
        async with open_tool(made(remote={"enabled": False})):
            pass


async def test_a_folder_that_cannot_be_made_says_where_it_is_configured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^remote\.handles_path: cannot create the folder"):
        async with open_tool(made(remote={"handles_path": str(tmp_path / "file" / "h.db")})):
            pass


def test_what_may_be_called_beside_a_target_is_told() -> None:
    support = {**TARGETS["support"], "trusted_origins": ["https://rpc.example.com"]}
    [strict] = tool_config(settings(targets={"support": support})).targets
    assert strict.trusted_origins == ("https://rpc.example.com",)
    assert not strict.allow_private
    lax = settings(network={"allow_private_addresses": True})
    assert all(one.allow_private for one in tool_config(lax).targets)
    assert target_for(lax, "https://stranger.example").allow_private
