"""An agent whose card names its own gateway first and a relay second; its own gateway cannot be
reached from where the caller is."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.command import Shell
from tests.acceptance.test_relay import HOST, KEY, Relayed


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def direct() -> str:
    return f"http://127.0.0.1:{closed_port()}"


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory, direct: str) -> Iterator[Relayed]:
    host = HOST.replace('mode = "relay"', 'mode = "both"')
    made = Relayed(
        tmp_path_factory.mktemp("relayed"), host + f'[server]\npublic_url = "{direct}"\n'
    )
    asyncio.run(made.attached())
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path: Path, relayed: Relayed, direct: str) -> Shell:
    """With a target that lists both origins."""
    (tmp_path / "targets.toml").write_text(
        f"""
        [targets.helper]
        base_url = "{relayed.agent_url()}"
        headers = {{ Authorization = "Bearer {KEY}" }}
        trusted_origins = ["{direct}"]
        """
    )
    return Shell(tmp_path)


@pytest.mark.parametrize("command", ["send", "stream"])
def test_a_message_goes_to_the_relay(shell: Shell, relayed: Relayed, command: str) -> None:
    ended = shell.run(command, "helper", "say hello", "--config", "targets.toml")
    assert (ended.code, ended.out) == (0, "hello\n"), ended.err


def test_the_card_names_the_gateway_first(shell: Shell, direct: str, relayed: Relayed) -> None:
    ended = shell.run("card", "helper", "--config", "targets.toml")
    assert ended.code == 0, ended
    assert ended.out.index(direct) < ended.out.index(relayed.relay.url)
