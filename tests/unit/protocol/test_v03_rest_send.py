import json
from typing import Any

import pytest

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import InvalidParams
from trunkline.protocol.v03 import V03_REST

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "hello"}]}


def decoded(body: dict[str, Any]) -> SendMessageRequest:
    return V03_REST.decode_send(json.dumps(body).encode())


# `request` is the name of the field in the proto and `message` its name in JSON; a parser of
# ProtoJSON takes both, and a2a-sdk sends the former.
@pytest.mark.parametrize("name", ["message", "request"])
def test_the_message_is_read_under_both_of_its_names(name: str) -> None:
    sent = decoded({name: MESSAGE})
    assert (sent.message.message_id, sent.message.parts[0].text) == ("m-1", "hello")


def test_a_request_needs_a_message_under_one_of_them() -> None:
    with pytest.raises(InvalidParams, match="message: is required"):
        decoded({"configuration": {}})


@pytest.mark.parametrize(
    ("body", "returns_immediately"),
    [
        ({"configuration": {"blocking": True}}, False),
        ({"configuration": {"blocking": False}}, True),
        # In the proto, not there is false.
        ({"configuration": {}}, True),
        ({"configuration": {"acceptedOutputModes": ["text/plain"]}}, True),
    ],
)
def test_a_configuration_waits_only_if_it_says_so(
    body: dict[str, Any], returns_immediately: bool
) -> None:
    configuration = decoded({"message": MESSAGE} | body).configuration
    assert configuration is not None
    assert configuration.return_immediately is returns_immediately


def test_without_a_configuration_the_answer_is_waited_for() -> None:
    assert decoded({"message": MESSAGE}).configuration is None
