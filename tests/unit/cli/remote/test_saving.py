from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.cli.remote.saving import Content, check_folder, contents, safe_name, save, save_all
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.values import Artifact, Message, Part, Role


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/", "artifact"),
        ("..", "artifact"),
        ("", "artifact"),
        (".bashrc", "bashrc"),
        ("-rf", "_-rf"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("a\x00b\x1b[31m\nc", "ab c"),
        ('x:y*"z".txt', "x_y_z_.txt"),
        ("ä" * 200 + ".txt", "ä" * 58 + ".txt"),
    ],
)
def test_names(given: str, safe: str) -> None:
    assert safe_name(given) == safe


@given(st.text())
def test_a_name_is_always_that_of_a_file_in_the_folder(name: str) -> None:
    safe = safe_name(name)
    assert Path(safe).name == safe
    assert safe not in ("", ".", "..")
    assert len(safe.encode()) <= 121


def test_what_there_is_to_save() -> None:
    tool = {"source": "tool", "toolName": "t", "phase": "result"}
    artifacts = (
        Artifact(artifact_id="1", name="answer", parts=(Part(text="a"), Part(text="b"))),
        Artifact(artifact_id="2", parts=(Part(text="# x", media_type="text/markdown"),)),
        Artifact(artifact_id="3", parts=(Part(raw=b"p", media_type="image/png"),)),
        Artifact(artifact_id="4", parts=(Part(raw=b"q", filename="dir/q.bin"), Part(data={}))),
        Artifact(artifact_id="5", parts=(Part(url="https://x.test/y"),)),
        Artifact(artifact_id="6", parts=(Part(data={}),), metadata=tool),
    )
    message = Message(
        message_id="m", role=Role.AGENT, parts=(Part(text="words"), Part(raw=b"r", filename="r.gz"))
    )
    assert list(contents(artifacts, message)) == [
        Content(name="answer.txt", body=b"a\nb"),
        Content(name="2.md", body=b"# x"),
        Content(name="3.png", body=b"p"),
        Content(name="q.bin", body=b"q"),
        Content(name="4.json", body=b"{}"),
        Content(name="r.gz", body=b"r"),
    ]


def test_nothing_is_overwritten_and_no_link_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on demand"
    outside = tmp_path / "outside"
    content = Content(name="a.txt", body=b"new")
    assert save(content, folder) == folder / "a.txt"
    (folder / "a-2.txt").symlink_to(outside)
    assert save(content, folder) == folder / "a-3.txt"
    assert not outside.exists()
    assert save(Content(name="plain", body=b""), folder) == folder / "plain"
    assert save(Content(name="plain", body=b""), folder) == folder / "plain-2"


def test_what_cannot_be_saved_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="is a file"):
        check_folder(file)
    check_folder(tmp_path / "not there yet")
    text = Artifact(artifact_id="a", parts=(Part(text="a"),))
    with pytest.raises(TrunklineError, match=r"a\.txt cannot be written: .*Name another folder\."):
        save_all([text], None, file / "below", quiet=False)
    with pytest.raises(TrunklineError, match=r"\. Get it again with: status x --save DIR$"):
        save_all([text], None, file / "below", quiet=False, again="status x --save DIR")
    save_all([], None, tmp_path, quiet=False)
    assert "nothing to save" in capsys.readouterr().err
