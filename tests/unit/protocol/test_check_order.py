"""The order of the events of a stream: each rule broken by one event, and good streams."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.protocol.check_examples import (
    ARTIFACT,
    ARTIFACT_03,
    ERROR_INFO,
    REPLY,
    REPLY_03,
    REST_ERROR,
    TASK,
    TIME,
    WORKING,
    WORKING_03,
)
from tests.unit.protocol.strategies import few, json_values

from trunkline.model.findings import Finding
from trunkline.protocol.checks import StreamChecker, check_order


def status(state: str, **more: Any) -> dict[str, Any]:
    update = {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}
    return {"statusUpdate": update | more}


def chunk(name: str = "a", **more: Any) -> dict[str, Any]:
    update = {"taskId": "t", "contextId": "c", "artifact": ARTIFACT | {"artifactId": name}}
    return {"artifactUpdate": update | more}


def status_03(state: str, *, final: bool = False, **more: Any) -> dict[str, Any]:
    update = {"kind": "status-update", "taskId": "t", "contextId": "c", "final": final}
    return update | {"status": {"state": state}} | more


def chunk_03(**more: Any) -> dict[str, Any]:
    update = {"kind": "artifact-update", "taskId": "t", "contextId": "c"}
    return update | {"artifact": ARTIFACT_03} | more


BEGUN = {"task": WORKING}
DONE = status("COMPLETED")
GOOD: dict[str, list[Any]] = {
    "message": [{"message": REPLY}],
    "whole": [{"task": TASK | {"status": {"state": "TASK_STATE_COMPLETED"}}}],
    "stream": [
        BEGUN,
        status("WORKING"),
        chunk("b"),
        chunk("b", append=True),
        chunk("b", append=True, lastChunk=True),
        DONE,
    ],
    "question": [BEGUN, status("INPUT_REQUIRED")],
    "auth-and-on": [BEGUN, status("AUTH_REQUIRED"), status("WORKING"), DONE],
    "append-to-known": [BEGUN, chunk("a", append=True), DONE],
    "anew-after-last": [
        BEGUN,
        chunk("b", lastChunk=True),
        chunk("b"),
        chunk("b", append=True),
        DONE,
    ],
    "snapshot-at-the-end": [BEGUN, DONE, {"task": TASK}],
    "queued-again": [BEGUN, status("SUBMITTED"), status("WORKING"), DONE],
    "numbered": [
        {"data": BEGUN, "eventId": "1"},
        {"data": status("WORKING"), "eventId": 2},
        {"data": json.dumps(DONE), "eventId": "9", "event": ""},
    ],
}
GOOD_03: dict[str, list[Any]] = {
    "message": [REPLY_03],
    "stream": [
        WORKING_03,
        status_03("working"),
        chunk_03(),
        chunk_03(append=True, lastChunk=True),
        status_03("completed", final=True),
    ],
    "question": [WORKING_03, status_03("input-required", final=True)],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_streams(name: str) -> None:
    assert check_order(GOOD[name], binding="rest") == []


@pytest.mark.parametrize("name", GOOD_03)
def test_good_streams_of_0_3(name: str) -> None:
    events = [{"jsonrpc": "2.0", "id": 1, "result": each} for each in GOOD_03[name]]
    assert check_order(events, version="0.3") == []


ORDER = "A2A 1.0 §3.1.2"
ARTIFACTS = "A2A 1.0 TaskArtifactUpdateEvent"
OTHER = WORKING | {"id": "u"}
# The events, and what is found: severity, rule, pointer.
BAD: list[tuple[list[Any], str, str, str]] = [
    ([], "error", "A2A 1.0 streams", ""),
    ([status("WORKING"), DONE], "error", ORDER, "/0/statusUpdate"),
    ([chunk(), DONE], "error", ORDER, "/0/artifactUpdate"),
    ([{"message": REPLY}, {"message": REPLY}], "error", ORDER, "/1"),
    ([{"message": REPLY}, DONE], "error", ORDER, "/1"),
    ([BEGUN, {"message": REPLY}, DONE], "error", ORDER, "/1/message"),
    ([BEGUN, DONE, DONE], "error", ORDER, "/2"),
    ([BEGUN, DONE, chunk()], "error", ORDER, "/2"),
    ([BEGUN, DONE, BEGUN], "error", ORDER, "/2"),
    ([BEGUN, status("FAILED"), status("WORKING")], "error", ORDER, "/2"),
    ([BEGUN, status("WORKING", taskId="u"), DONE], "error", ORDER, "/1/statusUpdate/taskId"),
    ([BEGUN, chunk(contextId="d"), DONE], "error", ORDER, "/1/artifactUpdate/contextId"),
    ([BEGUN, {"task": OTHER}, DONE], "error", ORDER, "/1/task/id"),
    ([BEGUN, chunk("new", append=True), DONE], "error", ARTIFACTS, "/1/artifactUpdate/append"),
    (
        [BEGUN, chunk("b", lastChunk=True), chunk("b", append=True), DONE],
        "error",
        ARTIFACTS,
        "/2/artifactUpdate/append",
    ),
    ([BEGUN, status("WORKING")], "warning", ORDER, ""),
    ([BEGUN, REST_ERROR, DONE], "error", ORDER, "/2"),
    (
        [{"data": BEGUN, "eventId": "2"}, {"data": DONE, "eventId": "2"}],
        "warning",
        "Server-sent events",
        "/1",
    ),
    (
        [BEGUN, {"data": {"x": 1}, "event": "gap"}, DONE],
        "note",
        "Server-sent events",
        "/1",
    ),
    (
        [BEGUN, {"statusUpdate": 7}, DONE],
        "error",
        "A2A 1.0 TaskStatusUpdateEvent",
        "/1/statusUpdate",
    ),
]
BAD_03: list[tuple[list[Any], str, str, str]] = [
    (
        [status_03("working"), status_03("completed", final=True)],
        "note",
        "A2A 0.3 streams",
        "/0/result",
    ),
    ([WORKING_03, status_03("working")], "warning", "A2A 0.3 §7.2.2", ""),
    ([WORKING_03, status_03("completed")], "error", "A2A 0.3 §7.2.2", "/1/result/final"),
    (
        [WORKING_03, status_03("input-required", final=True), chunk_03()],
        "error",
        "A2A 0.3 streams",
        "/2",
    ),
    (
        [WORKING_03, REPLY_03, status_03("failed", final=True)],
        "error",
        "A2A 0.3 streams",
        "/1/result",
    ),
    ([REPLY_03, WORKING_03], "error", "A2A 0.3 streams", "/1"),
    ([WORKING_03 | {"status": {"state": "failed"}}, chunk_03()], "error", "A2A 0.3 streams", "/1"),
]


def seen(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(each.severity, each.rule, each.pointer) for each in found]


@pytest.mark.parametrize(("events", "severity", "rule", "pointer"), BAD)
def test_bad_streams(events: list[Any], severity: str, rule: str, pointer: str) -> None:
    found = seen(check_order(events, binding="rest"))
    assert (severity, rule, pointer) in found
    assert len(found) <= 2, found


@pytest.mark.parametrize(("events", "severity", "rule", "pointer"), BAD_03)
def test_bad_streams_of_0_3(events: list[Any], severity: str, rule: str, pointer: str) -> None:
    events = [{"jsonrpc": "2.0", "id": 1, "result": each} for each in events]
    found = seen(check_order(events, version="0.3"))
    assert (severity, rule, pointer) in found
    assert len(found) <= 2, found


def test_every_event_of_json_rpc_has_the_id_of_the_request() -> None:
    first = {"jsonrpc": "2.0", "id": 1, "result": BEGUN}
    second = {"jsonrpc": "2.0", "id": "1", "result": DONE}
    assert seen(check_order([first, second])) == [("error", "JSON-RPC 2.0 §5", "/1/id")]


def test_an_error_of_json_rpc_ends_a_stream() -> None:
    error = {"code": -32603, "message": "no", "data": [ERROR_INFO | {"reason": "INTERNAL_ERROR"}]}
    failed = {"jsonrpc": "2.0", "id": 1, "error": error}
    begun = {"jsonrpc": "2.0", "id": 1, "result": BEGUN}
    assert check_order([begun, failed]) == []
    assert seen(check_order([failed, begun])) == [("error", ORDER, "/1")]
    named = {"data": json.dumps(failed), "event": "error"}
    assert seen(check_order([named, begun])) == [("error", ORDER, "/1")]


def test_a_resumed_stream_begins_anywhere() -> None:
    events = [chunk("x", append=True), DONE]
    assert check_order(events, binding="rest", is_resumed=True) == []
    assert len(check_order(events, binding="rest")) == 2


def test_a_subscription() -> None:
    message = [{"message": REPLY}]
    [finding] = check_order(message, binding="rest", operation="SubscribeToTask")
    assert (finding.severity, finding.rule) == ("error", "A2A 1.0 subscribe")
    events = [chunk_03(append=True), status_03("completed", final=True)]
    rpc = [{"jsonrpc": "2.0", "id": 1, "result": each} for each in events]
    assert check_order(rpc, version="0.3", operation="tasks/resubscribe") == []


def test_a_stream_that_was_cut_off_need_not_end() -> None:
    assert check_order([BEGUN], binding="rest", is_complete=False) == []


def test_a_stream_of_a_hub_is_told_with_one_note() -> None:
    task = {"task": {"id": "t", "status": {"state": "WORKING"}}}
    for checks_content in (True, False):
        found = check_order([task, task, task], binding="rest", checks_content=checks_content)
        assert [each.severity for each in found] == ["note"]
    assert len(check_order([task, task], version="hub")) == 1


def test_the_order_alone() -> None:
    events = [{"task": {"id": "t"}}, DONE, DONE]
    assert seen(check_order(events, binding="rest", checks_content=False)) == [
        ("error", ORDER, "/2")
    ]


def test_a_live_stream_is_judged_event_by_event() -> None:
    checker = StreamChecker(binding="rest")
    assert checker.feed(json.dumps(BEGUN).encode(), event_id="1") == []
    before = checker.has_errors
    [found] = checker.feed(json.dumps(chunk("x", append=True)), event_id="2")
    assert found.pointer == "/1/artifactUpdate/append"
    assert (before, checker.has_errors) == (False, True)
    assert checker.feed(status("WORKING", timestamp=TIME), event_id="3")[0].severity == "note"
    assert len(checker.close()) == 1
    assert len(checker.findings) == 3


def test_a_long_stream_is_bounded() -> None:
    checker = StreamChecker(binding="rest")
    checker.feed(BEGUN)
    for number in range(11_000):
        checker.feed(chunk(f"artifact-{number}"))
    assert checker.findings == []
    # Artifacts beyond the limit are not told apart, so nothing is wrong with this.
    assert checker.feed(chunk("artifact-10999", append=True)) == []
    for _ in range(200):
        checker.feed(chunk(contextId="d"))
    assert len(checker.findings) == 101


@few
@given(
    st.lists(
        json_values
        | st.sampled_from([BEGUN, DONE, chunk(), WORKING_03, chunk_03(), {"message": REPLY}]),
        max_size=6,
    ),
    st.sampled_from(["jsonrpc", "rest"]),
    st.sampled_from(["1.0", "0.3", "hub"]),
)
def test_no_stream_raises(events: list[Any], binding: Any, version: Any) -> None:
    whole = check_order(events, binding=binding, version=version)
    checker = StreamChecker(binding=binding, version=version)
    # One event at a time gives the same as all at once.
    one_by_one = [each for event in events for each in checker.feed(*_fed(event))]
    assert [*one_by_one, *checker.close()] == [
        each for each in whole if each.rule != "Checks of the gateway" or each in one_by_one
    ]


def _fed(event: Any) -> tuple[Any]:
    return (event,)
