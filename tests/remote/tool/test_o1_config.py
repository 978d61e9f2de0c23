"""O-1: registration and configuration."""

import json
from typing import Any

import pytest
from tests.remote.tool.peers import Peers
from tests.remote.tool.world import HELLO, SUPPORT, World, document, message, supported, target

from trunkline.model.errors import ConfigError
from trunkline.remote.target import CARD_PATH, TRANSPORTS, Target
from trunkline.remote.tool import InvalidConfig, ToolConfig, parse_config
from trunkline.remote.tool.config import Defaults, Policy, TaskHandleSettings
from trunkline.remote.tool.failures import ToolFailure
from trunkline.remote.tool.remote_agent import execute, is_registered


@pytest.mark.parametrize(
    ("enabled", "mode", "registered"),
    [(True, "full", True), (False, "full", False), (True, "metadata", False)],
)
def test_o1_the_tool_is_registered_when_full_and_enabled(
    enabled: bool, mode: str, registered: bool
) -> None:
    config = parse_config({"enabled": enabled})
    assert is_registered(config, mode) is registered


@pytest.mark.parametrize("given", ["true", 1, None])
def test_o1_enabled_is_true_and_nothing_like_it(given: Any) -> None:
    assert parse_config({"enabled": given}).enabled is False


async def test_o1_both_calling_conventions_of_the_host_give_its_json_result() -> None:
    request = {"action": "send", "parts": HELLO}
    first = supported(send=message("hi"))
    second = supported(send=message("hi"))
    plain = await execute(first.tool, request)
    updates: list[Any] = []
    with_id = await execute(second.tool, "call-1", request, None, updates.append)
    assert plain == with_id
    assert plain["content"][0]["type"] == "text"
    assert json.loads(plain["content"][0]["text"]) == plain["details"]
    assert plain["details"]["summary"]["message_text"] == "hi"


@pytest.mark.parametrize("given", [{}, None, [], "text"])
def test_o1_defaults(given: Any) -> None:
    assert parse_config(given) == ToolConfig(
        enabled=False,
        defaults=Defaults(
            timeout_ms=120_000,
            card_path="/.well-known/agent-card.json",
            transports=("JSONRPC", "HTTP+JSON"),
            service_parameters={},
        ),
        targets=(),
        task_handles=TaskHandleSettings(ttl_ms=86_400_000, max_entries=1000),
        policy=Policy(
            accepted_output_modes=(),
            normalize_base_url=True,
            enforce_supported_transports=True,
            allow_target_url_override=False,
        ),
    )


def test_o1_all_of_the_document_is_read() -> None:
    config = parse_config(
        {
            "enabled": True,
            "defaults": {
                "timeoutMs": 5000,
                "maxStreamMs": 9000,
                "cardPath": "/card.json",
                "preferredTransports": ["HTTP+JSON"],
                "serviceParameters": {"X-Key": "k"},
            },
            "targets": [target(headers={"X-Own": "o"})],
            "taskHandles": {"ttlMs": 1000, "maxEntries": 5, "durable": False},
            "policy": {
                "acceptedOutputModes": ["text/plain"],
                "normalizeBaseUrl": False,
                "enforceSupportedTransports": False,
                "allowTargetUrlOverride": True,
            },
        }
    )
    assert config.defaults == Defaults(
        timeout_ms=5000,
        max_stream_ms=9000,
        card_path="/card.json",
        transports=("HTTP+JSON",),
        service_parameters={"X-Key": "k"},
    )
    assert config.targets[0].card_path == "/card.json"
    assert config.targets[0].transports == ("HTTP+JSON",)
    assert config.targets[0].headers == {"X-Own": "o"}
    assert config.task_handles == TaskHandleSettings(ttl_ms=1000, max_entries=5, durable=False)
    assert config.policy == Policy(
        accepted_output_modes=("text/plain",),
        normalize_base_url=False,
        enforce_supported_transports=False,
        allow_target_url_override=True,
    )


def test_o1_invalid_scalars_fall_back_silently() -> None:
    config = parse_config(
        {
            "enabled": "yes",
            "defaults": {
                "timeoutMs": "soon",
                "maxStreamMs": -1,
                "cardPath": 7,
                "preferredTransports": "JSONRPC",
                "serviceParameters": {"a": 1, "b": "kept"},
            },
            "taskHandles": {"ttlMs": float("nan"), "maxEntries": True},
            "policy": {"acceptedOutputModes": [1, " text/plain "], "normalizeBaseUrl": "no"},
        }
    )
    assert config == ToolConfig(
        defaults=Defaults(service_parameters={"b": "kept"}),
        policy=Policy(accepted_output_modes=("text/plain",)),
    )


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        ({}, "targets must be an array"),
        (["support"], "targets[0] must be an object"),
        ([target(alias=" ")], "targets[0].alias must be a non-empty string"),
        ([target(), target("b", "")], "targets[1].baseUrl must be a non-empty string"),
        ([target("x"), target("x")], 'targets contains duplicate alias "x"'),
        (
            [target("a", default=True), target("b", default=True)],
            'targets contains multiple default entries ("a" and "b")',
        ),
    ],
)
def test_o1_wrong_targets_raise_a_type_error(targets: Any, why: str) -> None:
    with pytest.raises(TypeError) as caught:
        parse_config({"targets": targets})
    assert str(caught.value) == f"Invalid openclaw-a2a-outbound config: {why}"
    assert isinstance(caught.value, ConfigError)


def test_o1_a_target_is_read_and_trimmed() -> None:
    given = target(
        " support ",
        " https://support.example ",
        description="Primary support lane",
        tags=["support", ""],
        examples=["Summarize."],
        default=True,
    )
    assert parse_config({"targets": [given]}).targets == (
        Target(
            alias="support",
            url="https://support.example",
            description="Primary support lane",
            tags=("support",),
            card_path=CARD_PATH,
            transports=TRANSPORTS,
            examples=("Summarize.",),
            default=True,
        ),
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["HTTP+JSON", "SOAP"], ("HTTP+JSON",)),
        (["SOAP"], ("JSONRPC", "HTTP+JSON")),
        (["GRPC"], ("GRPC",)),
    ],
)
def test_o1_unknown_transports_are_filtered(given: list[str], kept: tuple[str, ...]) -> None:
    config = parse_config({"targets": [target(preferredTransports=given)]})
    assert config.targets[0].transports == kept


def test_o1_grpc_is_refused_when_the_tool_is_built() -> None:
    with pytest.raises(ToolFailure) as caught:
        World(document(target(preferredTransports=["GRPC"])))
    assert caught.value.code == "A2A_SDK_ERROR"
    assert caught.value.message == "unsupported preferred transport(s) in this build: GRPC"
    assert caught.value.details == {
        "unsupported": ["GRPC"],
        "supported": ["JSONRPC", "HTTP+JSON"],
    }


async def test_o1_grpc_without_enforcement_fails_at_the_send() -> None:
    policy = {"enforceSupportedTransports": False}
    world = World(document(target(default=True, preferredTransports=["GRPC"]), policy=policy))
    result = await world(action="send", parts=HELLO)
    assert result["error"]["code"] == "A2A_SDK_ERROR"
    assert result["error"]["message"] == (
        "Unknown preferred transport: GRPC, available transports: JSONRPC,HTTP+JSON"
    )
    assert world.peers.asked == []


@pytest.mark.parametrize("url", ["support.example", "ftp://x", "https://u:p@x/", "http://x:y"])
def test_o1_an_unusable_base_url_is_named_when_the_tool_is_built(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^Invalid URL: targets\[1\]\.baseUrl of 'b'"):
        World(document(target(), target("b", url)))


def test_o1_parsed_configs_share_nothing_that_changes() -> None:
    given: dict[str, Any] = {"defaults": {"serviceParameters": {"a": "1"}}, "targets": [target()]}
    first, second = parse_config(given), parse_config(given)
    given["defaults"]["serviceParameters"]["a"] = "2"
    assert first.defaults.service_parameters == {"a": "1"}
    assert first.defaults.service_parameters is not second.defaults.service_parameters
    assert parse_config({}).defaults.service_parameters is not (
        parse_config({}).defaults.service_parameters
    )


async def test_o1_base_urls_are_normalised_unless_the_policy_says_no() -> None:
    given = target(url="HTTPS://Support.Example:443", default=True)
    assert World(document(given)).tool.config.targets[0].url == SUPPORT
    verbatim = World(document(given, policy={"normalizeBaseUrl": False}), peers=Peers())
    assert verbatim.tool.config.targets[0].url == "HTTPS://Support.Example:443"
