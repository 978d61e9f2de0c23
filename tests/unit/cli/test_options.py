"""What is typed wrongly is refused in plain words, before anything is done."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app

run = CliRunner().invoke
URL = "http://127.0.0.1:1"
IT_IS_EMPTY = "it is empty. Is the variable set? Leave the option out if you do not need it."


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUNKLINE_CONFIG", "TRUNKLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["serve", "--port", "http"], "'--port': expected a whole number from 0 to 65535"),
        (["serve", "--port", "65536"], 'from 0 to 65535, got "65536".'),
        (["send", URL, "x", "--history", "-1"], "'--history': expected a whole number of 0 or"),
        (["list", URL, "--limit", "many"], 'expected a whole number of 1 or more, got "many".'),
        (["targets", "--limit", "0"], "expected a whole number of 1 or more"),
        (["db", "prune", "--keep", "1.5"], "expected a whole number of 0 or more"),
        (["send", URL, "x", "--timeout", "0"], "'--timeout': expected seconds, such as 30 or 0.5"),
        (["send", URL, "x", "--timeout", "nan"], 'expected seconds, such as 30 or 0.5, got "nan".'),
        (["card", URL, "--timeout", "soon"], 'got "soon".'),
        (["doctor", "--timeout", "-1"], 'got "-1".'),
        (["send", URL, "x", "--task", ""], f"'--task': {IT_IS_EMPTY}"),
        (["send", URL, "x", "--context", " "], f"'--context': {IT_IS_EMPTY}"),
        (["send", URL, "x", "--token", ""], f"TRUNKLINE_TOKEN'): {IT_IS_EMPTY}"),
        (["list", URL, "--context", ""], f"'--context': {IT_IS_EMPTY}"),
        (["status", URL, ""], f"'TASK': {IT_IS_EMPTY}"),
        (["watch", URL, ""], f"'TASK': {IT_IS_EMPTY}"),
        (["send", URL, "x", "--data", "{a}"], "--data is not JSON: object keys must be strings"),
        (["send", URL, "x", "--data", ""], "--data is not JSON: it ends too early. Quote it"),
        (["tool", "remote_agent", "{"], "the request is not JSON: it ends too early."),
    ],
)
def test_what_is_wrong_is_named_in_plain_words(words: list[str], complaint: str) -> None:
    result = run(app, words)
    assert result.exit_code == 2
    assert complaint in re.sub(r"[\s│]+", " ", result.stderr)


def test_an_empty_token_in_the_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_TOKEN", "")
    assert "Connection refused" in run(app, ["card", URL]).stderr
