from pathlib import Path

import pytest
from msgspec.structs import replace

from trunkline.cli.remote.conversations import Conversation, Conversations, address_of
from trunkline.model.card import AgentCapabilities, AgentCard, AgentInterface

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


def test_the_first_address_that_is_known_counts(tmp_path: Path) -> None:
    known = Conversations(tmp_path / "c.json")
    known.remember("http://typed.test", Conversation(task_id="old"))
    assert known.last("http://card.test/rpc", "http://typed.test/") == Conversation(task_id="old")
    known.remember("http://card.test/rpc", FIRST)
    assert known.last("http://card.test/rpc", "http://typed.test/") == FIRST


def test_an_agent_is_known_by_the_address_on_its_card() -> None:
    one = AgentInterface(url="http://h/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="A",
        description="a",
        version="1",
        supported_interfaces=(one,),
        capabilities=AgentCapabilities(),
        default_input_modes=(),
        default_output_modes=(),
        skills=(),
    )
    assert address_of(card) == "http://h/rpc"
    shared = replace(card, supported_interfaces=(replace(one, tenant="acme"),))
    assert address_of(shared) == "http://h/rpc#acme"
