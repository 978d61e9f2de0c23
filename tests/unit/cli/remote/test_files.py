import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.cli.remote import files as module
from trunkline.cli.remote.files import (
    Content,
    check_folder,
    contents,
    message_parts,
    safe_name,
    save,
    save_all,
    size,
)
from trunkline.model.errors import ConfigError, TrunklineError
from trunkline.model.values import Artifact, Message, Part, Role


def test_words_files_and_data_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# a")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    (tmp_path / "c").write_text("words")
    (tmp_path / "d.tar.gz").write_bytes(b"\x1f\x8b\x00")
    (tmp_path / "e.json").write_text("[2]")
    files = [str(tmp_path / name) for name in ("a.md", "b", "c", "d.tar.gz")]
    assert message_parts("hello", files, ['{"n": 1}', f"@{tmp_path}/e.json"]) == (
        Part(text="hello"),
        Part(raw=b"# a", filename="a.md", media_type="text/markdown"),
        Part(raw=b"\xff\x00", filename="b", media_type="application/octet-stream"),
        Part(raw=b"words", filename="c", media_type="text/plain"),
        Part(raw=b"\x1f\x8b\x00", filename="d.tar.gz", media_type="application/octet-stream"),
        Part(data={"n": 1}),
        Part(data=[2]),
    )


def test_stdin_is_read_when_it_is_meant() -> None:
    given = io.BytesIO(b"\xef\xbb\xbfpiped\n\n")
    assert message_parts("-", [], [], stdin=given) == (Part(text="piped"),)
    # A script that is run without a terminal would wait for ever.
    unread = io.BytesIO(b"piped")
    assert message_parts(None, [], ["1"], stdin=unread) == (Part(data=1),)
    assert unread.tell() == 0
    assert message_parts("-", [], ["1"], stdin=unread) == (Part(text="piped"), Part(data=1))


@pytest.mark.parametrize(
    ("text", "files", "data", "stdin", "complaint"),
    [
        (None, [], [], b"", "there is nothing to send. Give TEXT"),
        ("", [], [], b"", "there is nothing to send. Give TEXT"),
        ("-", [], [], b"\xff", "not UTF-8 text. Save it and send it with --file"),
        ("x", ["/no/such"], [], b"", "--file /no/such: there is no such file."),
        ("x", ["/"], [], b"", "--file /: cannot be read: Is a directory."),
        ("x", [], ["{"], b"", "--data is not JSON"),
        ("x", [], ["@/no/such"], b"", "the file does not exist or cannot be read"),
    ],
)
def test_what_cannot_be_sent(
    text: str | None, files: list[str], data: list[str], stdin: bytes, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("(", r"\(")):
        message_parts(text, files, data, stdin=io.BytesIO(stdin))


def test_the_limit_is_for_all_of_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 2000)
    (tmp_path / "a").write_bytes(b"x" * 1500)
    file = str(tmp_path / "a")
    assert len(message_parts("x", [file], [])) == 2
    with pytest.raises(
        ConfigError, match=r"has 1\.5 KB; the maximum for a message is 2\.0 KB\. Put"
    ):
        message_parts("x", [file, file], [])
    with pytest.raises(ConfigError, match=r"stdin is larger than 2\.0 KB"):
        message_parts("-", [], [], stdin=io.BytesIO(b"x" * 2001))


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (20 * 1024**2, "20 MB"),
        (5 * 1024**3, "5.0 GB"),
    ],
)
def test_sizes(count: int, shown: str) -> None:
    assert size(count) == shown


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
