from pathlib import Path
from typing import Any

import pytest

from trunkline.app.relay.host import read_token
from trunkline.config.secret import Secret
from trunkline.relay.hosts.dialing import DialFailed
from trunkline.settings.relay import RelaySettings


def settings(**token: Any) -> RelaySettings:
    return RelaySettings(url="wss://relay.example/agent", tenant="acme", agent_id="helper", **token)


async def test_the_token_is_that_of_the_settings_or_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  a.b.c\n")
    assert await read_token(settings(token=Secret("x"))) == "x"
    assert await read_token(settings(token_path=str(file))) == "a.b.c"
    # Another program has renewed it.
    file.write_text("d.e.f")
    assert await read_token(settings(token_path=str(file))) == "d.e.f"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty or holds characters"),
        (b"\n", "is empty or holds characters"),
        (b"a\r\nX-Header: b", "is empty or holds characters"),
        ("\N{EURO SIGN}".encode(), "is empty or holds characters"),
        (b"\xff\xfe", "cannot be read: it is not a text"),
    ],
)
async def test_a_file_without_a_token_says_why(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DialFailed) as failed:
        await read_token(settings(token_path=str(file)))
    assert failed.value.message.startswith(f"relay.token_path {why}")
