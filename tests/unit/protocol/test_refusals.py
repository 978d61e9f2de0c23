import pytest

from trunkline.model.errors import InvalidAgentResponse, TaskNotFound
from trunkline.protocol import rest
from trunkline.protocol.refusals import Refusal, http_refusal, opened
from trunkline.protocol.versions import Version


def test_the_envelope() -> None:
    assert opened(b'{"jsonrpc":"2.0","id":"7","result":{"a": 1}}', b'"7"') == b'{"a": 1}'
    refused = opened(
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"gone"}}', b'"7"'
    )
    assert refused == Refusal(code=-32001, reason="TASK_NOT_FOUND", message="gone")
    for body in (b'{"id":"8","result":{}}', b'{"id":null,"result":{}}'):
        with pytest.raises(InvalidAgentResponse, match="another request"):
            opened(body, b'"7"')
    assert opened(b'{"id":"7"}', b'"7"') == b"null", "as a2a-sdk says that it deleted"
    with pytest.raises(InvalidAgentResponse, match="not JSON-RPC"):
        opened(b"<html>", b'"7"')


@pytest.mark.parametrize("version", Version)
def test_refusals_of_our_own_rest_are_understood(version: Version) -> None:
    status, body = rest.error(TaskNotFound("no such task"), version)
    refused = http_refusal(status, body)
    assert (refused.code, refused.reason) == (-32001, "TASK_NOT_FOUND")
    assert refused.message == "Task not found: no such task"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>", Refusal()),
        (b"[]", Refusal()),
        (b'{"detail":"Not Found"}', Refusal(message="Not Found")),
        (b'{"code":[1],"error":"x"}', Refusal()),
        (
            b'{"type":"TaskNotFoundError","message":"m"}',
            Refusal(code=-32001, reason="TASK_NOT_FOUND", message="m"),
        ),
    ],
)
def test_refusals_of_others(body: bytes, expected: Refusal) -> None:
    assert http_refusal(404, body) == expected
