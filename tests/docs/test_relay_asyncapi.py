"""docs/reference/relay-asyncapi.json is up to date and complete."""

import json
from typing import Any, get_args

import msgspec
import pytest
from jsonschema_rs import Draft7Validator
from tools.gen_relay_asyncapi import DOCS, DOCUMENT, encoded

from trunkline.protocol.relay import close_codes, frames

TEXT = (DOCS / DOCUMENT).read_text("utf-8")
FOUND: dict[str, Any] = json.loads(TEXT)
MESSAGES: dict[str, Any] = FOUND["components"]["messages"]
KINDS = {str(kind.__struct_config__.tag): kind for kind in get_args(frames.Frame)}


def test_it_is_up_to_date() -> None:
    assert encoded() == TEXT, f"{DOCUMENT} is stale: run python -m tools.gen_relay_asyncapi"


def test_every_reference_leads_somewhere() -> None:
    def check(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                check(each)
        elif isinstance(value, dict):
            if isinstance(target := value.get("$ref"), str):
                found: Any = FOUND
                for part in target.removeprefix("#/").split("/"):
                    found = found[part]
            for each in value.values():
                check(each)

    check(FOUND)


def test_every_frame_is_in_it_and_has_a_sender() -> None:
    assert MESSAGES.keys() == KINDS.keys() == FOUND["channels"]["session"]["messages"].keys()
    sent = {
        name: {each["$ref"].rpartition("/")[2] for each in operation["messages"]}
        for name, operation in FOUND["operations"].items()
    }
    assert sent["fromHost"] | sent["fromRelay"] == KINDS.keys()
    assert {"hello", "agents", "accept", "res"} <= sent["fromHost"] - sent["fromRelay"]
    assert {"welcome", "leases", "req"} <= sent["fromRelay"] - sent["fromHost"]
    assert {"data", "cancel", "ack"} <= sent["fromHost"] & sent["fromRelay"]


def test_every_close_code_is_in_it() -> None:
    known = {value for value in vars(close_codes).values() if isinstance(value, int)}
    assert {each["code"] for each in FOUND["x-close-codes"]} == known
    for each in FOUND["x-close-codes"]:
        assert each["meaning"]
        assert each["fatal"] == (each["code"] in close_codes.FATAL)
        assert each["endsSession"] == close_codes.ends_session(each["code"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_is_a_frame(kind: str) -> None:
    validator = Draft7Validator(FOUND | MESSAGES[kind]["payload"])
    assert MESSAGES[kind]["examples"]
    bodies = [MESSAGES[kind].get("x-body", ""), "", ""]
    for example, text in zip(MESSAGES[kind]["examples"], bodies, strict=False):
        body = text.encode()
        head = msgspec.json.encode(example["payload"])
        message = head + b"\n" + body if body else head
        frame, found = frames.decode(message, max_bytes=frames.Limits().max_frame_bytes)
        assert type(frame) is KINDS[kind]
        assert found == body
        assert [error.message for error in validator.iter_errors(example["payload"])] == []
    assert not validator.is_valid({"frame": kind + "s"})


def test_what_a_reader_refuses_the_schema_refuses() -> None:
    validator = Draft7Validator(FOUND | MESSAGES["req"]["payload"])
    [example] = MESSAGES["req"]["examples"]
    for change in ({"n": 0}, {"epoch": "1"}, {"headers": [["a"]]}, {"agent": ""}):
        payload = example["payload"] | change
        assert not validator.is_valid(payload), change
        with pytest.raises(frames.Violation):
            frames.decode(msgspec.json.encode(payload), max_bytes=100_000)
