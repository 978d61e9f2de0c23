"""`channels.a2a.accounts`: inventory I-2 (keys) and I-3 (the account model)."""

from typing import Any

import pytest

from trunkline.config.problems import Referenced
from trunkline.model.errors import ConfigError
from trunkline.settings.agent_card import SkillSettings
from trunkline.settings.openclaw.inbound import (
    CHAT,
    Account,
    Accounts,
    TaskStore,
    parse_accounts,
)

P = "channels.a2a.accounts.main"


def document(**accounts: Any) -> dict[str, Any]:
    return {"channels": {"a2a": {"accounts": accounts}}}


def only(**keys: Any) -> Account:
    [account] = parse_accounts(document(main=keys)).all
    return account


def fault(**accounts: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_accounts(document(**accounts))
    return caught.value.message


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"channels": None},
        {"channels": []},
        {"channels": {}},
        {"channels": {"a2a": "x"}},
        {"channels": {"a2a": {"accounts": [1]}}},
        {"channels": {"a2a": {"accounts": {}}}},
    ],
)
def test_i2_missing_levels_are_no_accounts(raw: dict[str, Any]) -> None:
    assert parse_accounts(raw) == Accounts()


def test_i2_every_default() -> None:
    assert only() == Account(
        id="main",
        enabled=True,
        name="main",
        description="",
        public_url="",
        agent_id="",
        session_store="",
        v03_protocol_version="0.3.0",
        agent_card_path="/.well-known/agent-card.json",
        jsonrpc_path="/a2a/jsonrpc",
        max_body_bytes=1048576,
        input_modes=("text/plain", "application/json"),
        output_modes=("text/plain", "application/json"),
        agent_style="hybrid",
        origin_routing_policy="suppress-generic-followup",
        store=TaskStore(kind="memory"),
        skills=(SkillSettings(id="chat", name="Chat"),),
    )


def test_i2_an_account_that_is_no_object_has_the_defaults() -> None:
    assert parse_accounts(document(main=True)).all == (only(),)


def test_i2_every_key_is_read() -> None:
    account = only(
        enabled=False,
        label=" Mine ",
        description=" What it does ",
        publicBaseUrl="https://agents.example.com",
        defaultAgentId="ops",
        sessionStore="/var/lib/sessions.json",
        protocolVersion="0.3.1",
        agentCardPath="/card.json",
        jsonRpcPath="/rpc",
        maxBodyBytes=2048,
        defaultInputModes=["text/plain"],
        defaultOutputModes=["image/png"],
        agentStyle="task-generating",
        originRoutingPolicy="legacy-origin-routing",
        taskStore={"kind": "json-file", "path": "/var/lib/tasks"},
        skills=[{"id": "s", "name": "S", "description": "D", "tags": ["t"], "examples": ["e"]}],
        somethingElse="is ignored",
    )
    assert account == Account(
        id="main",
        enabled=False,
        name="Mine",
        description="What it does",
        public_url="https://agents.example.com",
        agent_id="ops",
        session_store="/var/lib/sessions.json",
        v03_protocol_version="0.3.1",
        agent_card_path="/card.json",
        jsonrpc_path="/rpc",
        max_body_bytes=2048,
        input_modes=("text/plain",),
        output_modes=("image/png",),
        names_input_modes=True,
        names_output_modes=True,
        agent_style="task-generating",
        origin_routing_policy="legacy-origin-routing",
        store=TaskStore(kind="json-file", path="/var/lib/tasks"),
        skills=(SkillSettings(id="s", name="S", description="D", tags=("t",), examples=("e",)),),
    )


@pytest.mark.parametrize(
    ("keys", "attribute", "value"),
    [
        ({"enabled": "no"}, "enabled", True),
        ({"enabled": 0}, "enabled", True),
        ({"label": "  "}, "name", "main"),
        ({"label": 7}, "name", "main"),
        ({"description": "  "}, "description", ""),
        ({"agentCardPath": "card.json"}, "agent_card_path", "/card.json"),
        ({"jsonRpcPath": "rpc"}, "jsonrpc_path", "/rpc"),
        ({"jsonRpcPath": " "}, "jsonrpc_path", "/a2a/jsonrpc"),
        ({"maxBodyBytes": 0}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": -1}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": 1.5}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": True}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": "9"}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": float("inf")}, "max_body_bytes", 1048576),
        ({"maxBodyBytes": 1e4}, "max_body_bytes", 10000),
        ({"defaultInputModes": []}, "input_modes", ("text/plain", "application/json")),
        (
            {"defaultInputModes": ["application/json", "text/plain", "application/json"]},
            "input_modes",
            ("application/json", "text/plain"),
        ),
        ({"defaultOutputModes": [1, "", "a/b", "a/b"]}, "output_modes", ("a/b",)),
        ({"defaultOutputModes": [1]}, "output_modes", ("text/plain", "application/json")),
        ({"defaultOutputModes": "a/b"}, "output_modes", ("text/plain", "application/json")),
        ({"taskStore": {"kind": "memory", "path": "x"}}, "store", TaskStore()),
        ({"skills": [{"id": "a"}, {"name": "b"}, 3, {"id": " ", "name": "c"}]}, "skills", (CHAT,)),
        ({"skills": "chat"}, "skills", (CHAT,)),
        (
            {"skills": [{"id": "a", "name": "A"}, {"id": "a", "name": "B"}]},
            "skills",
            (SkillSettings(id="a", name="A"),),
        ),
        (
            {"skills": [{"id": "a", "name": "A", "tags": ["t", 1], "examples": "e"}]},
            "skills",
            (SkillSettings(id="a", name="A", tags=("t",)),),
        ),
    ],
    ids=str,
)
def test_i2_what_does_not_fit_is_not_there(
    keys: dict[str, Any], attribute: str, value: object
) -> None:
    assert getattr(only(**keys), attribute) == value


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("https://agents.example.com", "https://agents.example.com"),
        (" HTTPS://Agents.Example.com:443/ ", "https://agents.example.com"),
        ("http://agents.example.com:8080/", "http://agents.example.com:8080"),
        ("https://example.com/tenant/one/?q=1#f", "https://example.com/tenant/one"),
        ("http://[::1]:8642", "http://[::1]:8642"),
        ("agents.example.com", ""),
        ("ftp://agents.example.com", ""),
        ("https://", ""),
        ("https://a.example:port", ""),
        ("https://a b.example", ""),
        ("", ""),
        (7, ""),
    ],
)
def test_i2_public_base_url_is_normalised_or_absent(written: object, url: str) -> None:
    account = only(publicBaseUrl=written)
    assert account.public_url == url


def test_public_base_url_must_not_hold_a_password() -> None:
    message = fault(main={"publicBaseUrl": "https://me:secret@agents.example.com"})
    assert message == (
        f"{P}.publicBaseUrl must not hold a user name or password; "
        "anyone can read it on the agent card."
    )


@pytest.mark.parametrize("key", ["restPath", "capabilities", "auth"])
def test_i2_forbidden_keys(key: str) -> None:
    message = f'{P}.{key} is not supported; remove "{key}" from the A2A inbound account config.'
    assert fault(main={key: None}) == message


INPUT_MODES = f"{P}.defaultInputModes"
STORE = f"{P}.taskStore"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"agentStyle": "x"},
            f'{P}.agentStyle must be one of hybrid, task-generating; received "x".',
        ),
        ({"agentStyle": 1}, f"{P}.agentStyle must be one of hybrid, task-generating."),
        ({"agentStyle": None}, f"{P}.agentStyle must be one of hybrid, task-generating."),
        (
            {"originRoutingPolicy": "x"},
            f"{P}.originRoutingPolicy must be one of legacy-origin-routing, "
            'suppress-generic-followup; received "x".',
        ),
        (
            {"originRoutingPolicy": []},
            f"{P}.originRoutingPolicy must be one of legacy-origin-routing, "
            "suppress-generic-followup.",
        ),
        (
            {"defaultInputModes": ["text/plain", "image/png"]},
            f'{INPUT_MODES} only supports text/plain, application/json; received "image/png".',
        ),
        (
            {"defaultInputModes": ["text/plain", 1]},
            f"{INPUT_MODES} must contain only supported string values: "
            "text/plain, application/json.",
        ),
        (
            {"defaultInputModes": "text/plain"},
            f"{INPUT_MODES} must contain only supported string values: "
            "text/plain, application/json.",
        ),
        ({"taskStore": "memory"}, f"{STORE} must be an object when provided."),
        ({"taskStore": None}, f"{STORE} must be an object when provided."),
        ({"taskStore": {}}, f'{STORE}.kind must be either "memory" or "json-file".'),
        ({"taskStore": {"kind": "x"}}, f'{STORE}.kind must be either "memory" or "json-file".'),
        *(
            (
                {"taskStore": {"kind": "json-file", **path}},
                f"{STORE}.path must be a non-empty absolute path when taskStore.kind is "
                '"json-file".',
            )
            for path in ({}, {"path": " "}, {"path": "tasks"}, {"path": 3}, {"path": "~/tasks"})
        ),
    ],
    ids=str,
)
def test_i2_exact_errors(keys: dict[str, Any], message: str) -> None:
    assert fault(main=keys) == message


def test_i2_routes_belong_to_one_account() -> None:
    here = {"agentCardPath": "/b/card"}
    message = (
        'channels.a2a.accounts.b reuses route path "/a2a/jsonrpc" already assigned to account "a"'
    )
    assert fault(b=here, a={}) == message


def test_i2_one_account_needs_two_routes() -> None:
    message = f'{P} reuses route path "/x" already assigned to account "main"'
    assert fault(main={"agentCardPath": "/x", "jsonRpcPath": "x"}) == message


def test_i2_a_disabled_account_takes_no_routes() -> None:
    accounts = parse_accounts(document(a={"enabled": False}, b={}))
    assert [account.jsonrpc_path for account in accounts.all] == ["/a2a/jsonrpc"] * 2


@pytest.mark.parametrize("alias", ["/data/tasks/", "/data/x/../tasks", "/data//./tasks"])
def test_i2_stores_belong_to_one_account_even_a_disabled_one(alias: str) -> None:
    message = fault(
        b={"taskStore": {"kind": "json-file", "path": alias}},
        a={"enabled": False, "taskStore": {"kind": "json-file", "path": "/data/tasks"}},
    )
    assert message == (
        "channels.a2a.accounts.b.taskStore.path reuses json-file task store path "
        '"/data/tasks" already assigned to account "a".'
    )


def test_the_first_fault_of_every_account_is_told() -> None:
    lines = fault(b={"auth": {}}, a={"agentStyle": 1}, c={}).splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        "channels.a2a.accounts.a.agentStyle",
        "channels.a2a.accounts.b.auth",
    ]


def test_a_value_from_the_environment_is_shown_as_written() -> None:
    message = fault(main={"agentStyle": Referenced("s3cret", "${STYLE}")})
    assert message.endswith('; received "${STYLE}".')


def test_i2_accounts_come_in_the_order_of_their_ids() -> None:
    accounts = parse_accounts(document(zeta={"enabled": False}, alpha={}))
    assert [account.id for account in accounts.all] == ["alpha", "zeta"]


@pytest.mark.parametrize(
    ("accounts", "default"),
    [
        ({"b": {}, "a": {"enabled": False}}, "b"),
        ({"b": {"enabled": False}, "a": {"enabled": False}}, "a"),
        ({"c": {"jsonRpcPath": "/c", "agentCardPath": "/d"}, "b": {}}, "b"),
        ({}, "default"),
    ],
)
def test_i3_the_default_account(accounts: dict[str, Any], default: str) -> None:
    assert parse_accounts(document(**accounts)).default_id == default


def test_i3_an_unknown_account_is_a_disabled_one() -> None:
    account = parse_accounts(document(a={})).find("nobody")
    assert account == Account(id="nobody", name="nobody", enabled=False)


def test_i3_configured_means_that_there_is_a_public_base_url() -> None:
    assert only(publicBaseUrl="https://a.example").idle_reason == ""
    message = "publicBaseUrl is required to advertise a valid agent card."
    assert only().idle_reason == message
    assert only(publicBaseUrl="nonsense").idle_reason == message


def test_i3_a_disabled_account_says_so() -> None:
    account = only(enabled=False, publicBaseUrl="https://a.example")
    assert account.idle_reason == "This A2A inbound account is disabled."
