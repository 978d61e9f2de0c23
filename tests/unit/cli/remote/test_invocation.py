"""What is noticed before anything is sent."""

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
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("card 127.0.0.1", "Did you mean http://127.0.0.1 ?"),
        ("send agent.example x", "Did you mean https://agent.example ?"),
        ("send alias x", "or --config FILE with a table [targets.alias]."),
        ("send ftp://x.test x", "is not an http or https url"),
        ("send http://me:secret@x.test x", "holds a password; use credentials instead."),
        ("send http://me:secret@x.test:99999 x", '"http://***@x.test:99999" has a port that'),
        ("send me:secret@x.test x", 'error: "***@x.test" has no scheme.'),
        ("targets", "Give --config FILE with a table [targets.name]"),
        ("doctor -c none.toml", "none.toml: no such file."),
        (f"send {URL}", "there is nothing to send. Give TEXT, --file or --data"),
        (f"send {URL} x -f none", "--file none: there is no such file."),
        (f"send {URL} x --data {{", "--data is not JSON"),
        (f"send {URL} x -H nonsense", "-H: expected 'NAME: VALUE', with a colon"),
        (f"send {URL} x -H bad(name:x", "is not the name of a header"),
        (f"send {URL} x --continue --task t", "Leave it out to name another one"),
        (f"send {URL} x --no-wait --save d", "Leave one of them out; `trunkline status`"),
    ],
)
def test_wrong_use_is_said_with_its_remedy(words: str, complaint: str) -> None:
    result = run(app, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "words", ["cancel", "send", f"list {URL} --status none", f"send {URL} x --protocol grpc"]
)
def test_what_the_command_line_itself_refuses(words: str) -> None:
    assert run(app, words.split()).exit_code == 2


def test_a_token_with_a_line_break_is_named_and_not_shown() -> None:
    result = run(app, ["card", URL, "--token", "secret\nsecret"])
    assert result.exit_code == 2
    assert 'the header "Authorization" holds a line break.' in result.stderr
    assert "secret" not in result.stderr
