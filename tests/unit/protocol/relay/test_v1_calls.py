import json
from typing import Any

import pytest
from msgspec import Raw

from trunkline.model.errors import MethodNotFound, UnsupportedOperation
from trunkline.protocol.relay.v1.calls import answer_of, read_call
from trunkline.protocol.relay.v1.frames import RequestPayload, Response, encode
from trunkline.protocol.versions import Version

OLD = {"message": {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}}
NEW = {"message": {"role": "ROLE_USER", "parts": [{"text": "hi"}]}}


def payload(method: str, params: Any) -> RequestPayload:
    return RequestPayload(id='r"1', method=method, params=Raw(json.dumps(params).encode()))


@pytest.mark.parametrize("is_enveloped", [False, True], ids=["plain", "enveloped"])
@pytest.mark.parametrize(
    ("method", "params", "version", "meant"),
    [
        ("message/send", OLD, Version.V0_3, "message/send"),
        ("SendMessage", OLD, Version.V0_3, "message/send"),
        ("message/send", NEW, Version.V1_0, "SendMessage"),
        ("SendMessage", NEW, Version.V1_0, "SendMessage"),
        ("message/stream", OLD, Version.V0_3, "message/send"),
        ("SendStreamingMessage", NEW, Version.V1_0, "SendMessage"),
        ("tasks/get", {"id": "t"}, Version.V0_3, "tasks/get"),
        ("GetTask", {"id": "t"}, Version.V1_0, "GetTask"),
        ("tasks/list", {}, Version.V0_3, "tasks/list"),
        ("ListTasks", {}, Version.V1_0, "ListTasks"),
        ("tasks/cancel", {"id": "t"}, Version.V0_3, "tasks/cancel"),
        ("CancelTask", {"id": "t"}, Version.V1_0, "CancelTask"),
    ],
)
def test_both_forms_and_both_names_of_a_request_are_read(
    method: str, params: Any, version: Version, meant: str, is_enveloped: bool
) -> None:
    given = payload(method, params)
    if is_enveloped:
        envelope = {"jsonrpc": "2.0", "id": 9, "method": method, "params": params}
        # The relay has put the method of its route around it.
        given = payload("message/send", envelope)
    call = read_call(given)
    assert call.version is version
    body = json.loads(call.body)
    assert body == {"jsonrpc": "2.0", "id": 'r"1', "method": meant, "params": params}


def test_parameters_with_a_method_of_their_own_are_no_envelope() -> None:
    params = OLD | {"method": "tasks/cancel", "jsonrpc": "1.0"}
    assert json.loads(read_call(payload("message/send", params)).body)["method"] == "message/send"


@pytest.mark.parametrize("params", [[], "text", None, 7, {"message": "text"}, {"jsonrpc": 2}])
def test_parameters_of_another_form_are_left_to_the_application(params: Any) -> None:
    assert json.loads(read_call(payload("message/send", params)).body)["params"] == params


@pytest.mark.parametrize("method", ["", "tasks/none", "message/send ", "x" * 1000])
def test_unknown_methods_are_refused(method: str) -> None:
    with pytest.raises(MethodNotFound) as refused:
        read_call(payload(method, {}))
    assert len(refused.value.message) < 200


@pytest.mark.parametrize("method", ["tasks/resubscribe", "SubscribeToTask"])
def test_a_task_cannot_be_followed_without_streams(method: str) -> None:
    with pytest.raises(UnsupportedOperation, match="GetTask"):
        read_call(payload(method, {"id": "t"}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":"1","result":{"a":1}}', {"result": {"a": 1}}),
        (b'{"result":null}', {"result": None}),
        (
            b'{"error":{"code":-32001,"message":"no","data":[1]}}',
            {"error": {"code": -32001, "message": "no"}},
        ),
        (b"", {"error": {"code": -32603, "message": "there is no answer"}}),
        (b"[1]", {"error": {"code": -32603, "message": "there is no answer"}}),
        (b"{}", {"error": {"code": -32603, "message": "there is no answer"}}),
    ],
)
def test_a_response_of_jsonrpc_becomes_the_payload_of_the_answer(
    body: bytes, expected: Any
) -> None:
    frame = json.loads(encode(Response(answer_of("r1", body))))
    assert frame == {"type": "a2a.response", "payload": {"id": "r1"} | expected}
