"""`gateway.bind` of an `openclaw.json`: where the gateway listens."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.settings.openclaw.documents import KEY, URL, loaded, refused

from trunkline.model.errors import ConfigError
from trunkline.settings.openclaw import listen_address

AUTH = {"scheme": "bearer", "apiKey": KEY}


def document(**gateway: Any) -> dict[str, Any]:
    return {"a2a": {"server": {"publicUrl": URL, "auth": AUTH}}, "gateway": gateway}


def host(folder: Path, **gateway: Any) -> str:
    return loaded(folder, document(**gateway)).settings.server.host


@pytest.mark.parametrize(
    ("gateway", "listens"),
    [
        ({}, "127.0.0.1"),
        ({"bind": "loopback"}, "127.0.0.1"),
        ({"bind": "auto"}, "127.0.0.1"),
        ({"bind": "lan"}, "0.0.0.0"),
        ({"bind": "custom", "customBindHost": " 192.0.2.7 "}, "192.0.2.7"),
        ({"bind": "tailnet", "tailscale": {"mode": "serve"}}, "127.0.0.1"),
        ({"bind": "tailnet", "tailscale": {"mode": "funnel"}}, "127.0.0.1"),
        # Without bind, the host of another mode means nothing.
        ({"customBindHost": "192.0.2.7"}, "127.0.0.1"),
    ],
    ids=str,
)
def test_where_it_listens(tmp_path: Path, gateway: dict[str, Any], listens: str) -> None:
    assert host(tmp_path, **gateway) == listens


def test_a_tailnet_is_found_by_its_address() -> None:
    assert listen_address.host_of({"bind": "tailnet"}, find=lambda: "100.101.102.103") == (
        "100.101.102.103"
    )


@pytest.mark.parametrize(
    ("gateway", "message"),
    [
        (
            {"bind": "wan"},
            'gateway.bind must be one of auto, loopback, lan, tailnet, custom; received "wan".',
        ),
        (
            {"bind": "custom"},
            'gateway.customBindHost is required with gateway.bind "custom"; give the address to '
            "listen on.",
        ),
        ({"bind": "custom", "customBindHost": 7}, "gateway.customBindHost must be a string."),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(tmp_path: Path, gateway: dict[str, Any], message: str) -> None:
    assert refused(tmp_path, document(**gateway)) == f"{tmp_path}/openclaw.json: {message}"


@pytest.mark.parametrize("found", ["", "192.168.1.4", "nonsense"])
def test_a_machine_without_a_tailnet_says_what_to_do(found: str) -> None:
    with pytest.raises(ConfigError, match="no Tailscale address on this machine"):
        listen_address.host_of({"bind": "tailnet"}, find=lambda: found)


def test_flags_and_toml_win(tmp_path: Path) -> None:
    overrides = {"server": {"host": "127.0.0.2"}}
    settings = loaded(tmp_path, document(bind="lan"), overrides=overrides).settings
    assert settings.server.host == "127.0.0.2"


def test_an_open_endpoint_beyond_this_machine_is_refused(tmp_path: Path) -> None:
    """As everywhere: without a key nobody but this machine may call."""
    open_server = {"a2a": {"server": {"publicUrl": URL}}, "gateway": {"bind": "lan"}}
    assert "gateway.bind" in refused(tmp_path, open_server)
