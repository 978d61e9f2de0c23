import json
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb_03
from google.protobuf.json_format import MessageToDict

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import InvalidParams
from trunkline.protocol.v03_rest import V03Rest

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "content": [{"text": "hello"}]}


def decoded(body: dict[str, Any]) -> SendMessageRequest:
    return V03Rest.decode_send(json.dumps(body).encode())


@pytest.mark.parametrize("keeps_proto_names", [False, True])
def test_a_request_of_the_proto_is_read_under_both_names(keeps_proto_names: bool) -> None:
    message = pb_03.Message(message_id="m-1", role=pb_03.ROLE_USER, content=[{"text": "hello"}])
    body = MessageToDict(
        pb_03.SendMessageRequest(request=message), preserving_proto_field_name=keeps_proto_names
    )
    assert ("request" in body) is keeps_proto_names
    sent = decoded(body)
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
