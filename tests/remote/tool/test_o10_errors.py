"""O-10: the codes of errors, and what they tell."""

from typing import Any

import pytest
from tests.remote.tool.world import HELLO, SUPPORT, World, card, supported

from trunkline.remote.errors import (
    BadPeerAnswer,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
    TransportUnsupported,
)
from trunkline.remote.tool import Code


def test_o10_the_codes() -> None:
    assert {str(code) for code in Code} == {
        "VALIDATION_ERROR",
        "A2A_SDK_ERROR",
        "TARGET_RESOLUTION_ERROR",
        "UNKNOWN_TASK_HANDLE",
        "EXPIRED_TASK_HANDLE",
        "TASK_REQUIRED_BUT_MESSAGE_RETURNED",
        "WAIT_TIMEOUT",
        "INTERNAL_ERROR",
    }


async def failed(error: Exception) -> dict[str, Any]:
    result = await supported(send=error)(action="send", parts=HELLO)
    assert result["ok"] is False
    found: dict[str, Any] = result["error"]
    found["details"].pop("capability_diagnostics", None)
    return found


@pytest.mark.parametrize(
    "error",
    [
        PeerUnreachable("no connection"),
        PeerTimeout("connecting took too long", reason="CONNECT_TIMEOUT", is_unsent=True),
        BadPeerAnswer("the answer is HTML"),
        StreamEnded("the stream was cut"),
        TransportUnsupported("nothing in common"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_o10_remote_failures(error: RemoteError) -> None:
    assert await failed(error) == {
        "code": "A2A_SDK_ERROR",
        "message": error.message,
        "details": {"errorName": type(error).__name__, "reason": error.reason},
    }


async def test_o10_a_timeout_reads_the_same_whoever_notices_it() -> None:
    assert await failed(PeerTimeout("the agent took too long", reason="CALL_TIMEOUT")) == {
        "code": "A2A_SDK_ERROR",
        "message": "request timed out",
        "details": {
            "errorName": "TimeoutError",
            "reason": "TIMEOUT",
            "hint": "Increase request.timeoutMs or plugin defaults.timeoutMs.",
        },
    }


@pytest.mark.parametrize(
    ("data", "outline"),
    [
        ({"b": "secret", "a": 1}, {"type": "object", "keys": ["a", "b"]}),
        (["secret"], {"type": "array"}),
        ("secret", {"type": "string"}),
        (7, {"type": "number"}),
        (True, {"type": "boolean"}),
    ],
)
async def test_o10_an_error_of_the_peer_keeps_its_text_and_shows_the_shape_of_its_data(
    data: Any, outline: dict[str, Any]
) -> None:
    error = PeerRefused("Task not found: task-9", code=-32001, reason="TASK_NOT_FOUND", data=data)
    assert await failed(error) == {
        "code": "A2A_SDK_ERROR",
        "message": "Task not found: task-9",
        "details": {
            "errorName": "PeerRefused",
            "reason": "TASK_NOT_FOUND",
            "rpcCode": -32001,
            "rpcData": outline,
        },
    }


async def test_o10_when_to_come_back_is_told() -> None:
    busy = PeerRefused("too many", code=0, reason="HTTP_429", status=429)
    busy.retry_after_s = 59.5
    error = (await supported(send=busy)(action="send", parts=HELLO))["error"]
    assert error["details"]["retry_after_ms"] == 59_500


async def test_o10_an_error_in_a_stream_keeps_its_code() -> None:
    world = supported(stream=[PeerRefused("quota", code=-32050)])
    result = await world(action="send", parts=HELLO, follow_updates=True)
    assert result["error"]["message"] == "quota"
    assert result["error"]["details"]["rpcCode"] == -32050


async def test_o10_what_nobody_foresaw_is_an_internal_error_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = await failed(RuntimeError("password=hunter2"))
    assert found == {
        "code": "INTERNAL_ERROR",
        "message": "remote_agent failed unexpectedly; see the log",
        "details": {"errorName": "RuntimeError"},
    }
    assert "remote_agent failed" in caplog.text


async def test_item3_no_stack_traces_in_results() -> None:
    world = World()
    world.peers.says(SUPPORT, "card", card())
    for error in (PeerUnreachable("down"), RuntimeError("bug"), PeerRefused("no", code=-1)):
        world.peers.says(SUPPORT, "send", error)
        result = await world(action="send", parts=HELLO)
        assert "stack" not in str(result)
        assert "Traceback" not in str(result)
