"""Commands that find nobody to talk to."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

run = CliRunner().invoke
URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_an_agent_that_is_not_there_is_one_line() -> None:
    result = run(app, ["send", URL, "x"])
    assert result.exit_code == 9
    assert result.stderr == (
        f"error: {URL}: cannot connect to 127.0.0.1:1: Connection refused. Is it running? Check "
        "the URL and the network.\n"
    )
    shown = run(app, ["--debug", "send", URL, "x"])
    assert "Traceback" in shown.stderr
