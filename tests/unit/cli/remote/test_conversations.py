from pathlib import Path

import pytest

from trunkline.cli.remote.conversations import Conversation, Conversations, task_or_last
from trunkline.model.errors import ConfigError

FIRST = Conversation(context_id="c1", task_id="t1")


def test_the_last_one_of_each_target_is_known(tmp_path: Path) -> None:
    file = tmp_path / "data" / "conversations.json"
    known = Conversations(file)
    assert known.last("http://a.test") is None
    known.remember("http://a.test/", FIRST)
    known.remember("http://b.test", Conversation(context_id="c2"))
    assert known.last("http://a.test") == FIRST
    assert Conversations(file).last("http://b.test/") == Conversation(context_id="c2")
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o077 == 0


def test_those_not_talked_to_for_longest_are_forgotten(tmp_path: Path) -> None:
    known = Conversations(tmp_path / "c.json")
    known.remember("http://again.test", FIRST)
    for number in range(199):
        known.remember(f"http://{number}.test", FIRST)
    known.remember("http://again.test", FIRST)
    known.remember("http://new.test", FIRST)
    assert known.last("http://0.test") is None
    assert known.last("http://1.test") == FIRST
    assert known.last("http://again.test") == FIRST


@pytest.mark.parametrize("held", [b"", b"{", b'{"http://a.test": 1}', b"\xff"])
def test_a_damaged_file_counts_as_empty(held: bytes, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(held)
    known = Conversations(file)
    assert known.last("http://a.test") is None
    known.remember("http://a.test", FIRST)
    assert known.last("http://a.test") == FIRST


def test_the_task_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert task_or_last("t9", "http://a.test", "a") == "t9"
    with pytest.raises(ConfigError, match="no task of a is known here"):
        task_or_last("", "http://a.test", "a")
    Conversations().remember("http://a.test", FIRST)
    assert task_or_last("", "http://a.test", "a") == "t1"
