import io
from pathlib import Path

import pytest

from trunkline.cli.remote import content
from trunkline.cli.remote.content import parts_of, size
from trunkline.model.errors import ConfigError
from trunkline.model.values import Part


def test_words_files_and_data_in_this_order(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# a")
    (tmp_path / "b").write_bytes(b"\xff\x00")
    (tmp_path / "c").write_text("words")
    (tmp_path / "d.tar.gz").write_bytes(b"\x1f\x8b\x00")
    (tmp_path / "e.json").write_text("[2]")
    files = [str(tmp_path / name) for name in ("a.md", "b", "c", "d.tar.gz")]
    assert parts_of("hello", files, ['{"n": 1}', f"@{tmp_path}/e.json"]) == (
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
    assert parts_of("-", [], [], stdin=given) == (Part(text="piped"),)
    # A script that is run without a terminal would wait for ever.
    unread = io.BytesIO(b"piped")
    assert parts_of(None, [], ["1"], stdin=unread) == (Part(data=1),)
    assert unread.tell() == 0
    assert parts_of("-", [], ["1"], stdin=unread) == (Part(text="piped"), Part(data=1))


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
        parts_of(text, files, data, stdin=io.BytesIO(stdin))


def test_the_limit_is_for_all_of_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_BYTES", 2000)
    (tmp_path / "a").write_bytes(b"x" * 1500)
    file = str(tmp_path / "a")
    assert len(parts_of("x", [file], [])) == 2
    with pytest.raises(
        ConfigError, match=r"has 1\.5 KB; the maximum for a message is 2\.0 KB\. Put"
    ):
        parts_of("x", [file, file], [])
    with pytest.raises(ConfigError, match=r"stdin is larger than 2\.0 KB"):
        parts_of("-", [], [], stdin=io.BytesIO(b"x" * 2001))


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
