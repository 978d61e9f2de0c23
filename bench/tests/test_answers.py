"""A wrong answer must never pass for a right one."""

import json
from typing import Any

from bench.answers import sse_events, streamed
from bench.calls import Caller, Send
from bench.client import Outcome
from bench.dialects import A2A_1_0
from bench.script import delta

NUMBER = 10_000_042


def send() -> Send:
    return Send(Caller(A2A_1_0, "/"))


def answer(state: str = "TASK_STATE_COMPLETED", text: str = f"hello {NUMBER}") -> bytes:
    artifacts = [{"artifactId": "answer", "parts": [{"text": text}]}]
    task = {"id": "t", "status": {"state": state}, "artifacts": artifacts}
    return json.dumps({"jsonrpc": "2.0", "id": NUMBER, "result": {"task": task}}).encode()


def stream(*texts: str, last: str = "TASK_STATE_COMPLETED") -> list[bytes]:
    updates: list[dict[str, Any]] = [
        {"artifactUpdate": {"artifact": {"artifactId": "answer", "parts": [{"text": text}]}}}
        for text in texts
    ]
    updates.append({"statusUpdate": {"status": {"state": last}}})
    body = b"".join(b"data: " + json.dumps(update).encode() + b"\n\n" for update in updates)
    return sse_events(body)


def test_the_request_keeps_its_length_when_numbered() -> None:
    head, _, body = send().request(NUMBER).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    payload = json.loads(body)
    assert payload["id"] == NUMBER
    assert payload["params"]["message"]["messageId"] == f"m-{NUMBER}"
    assert payload["params"]["message"]["parts"] == [{"text": f"hello {NUMBER}"}]


def test_a_finished_task_with_the_text_is_right() -> None:
    assert send().verdict(NUMBER, 200, answer()) is None


def test_all_else_is_wrong() -> None:
    assert send().verdict(NUMBER + 1, 200, answer()) is not None
    assert send().verdict(NUMBER, 200, answer(state="TASK_STATE_WORKING")) is not None
    assert send().verdict(NUMBER, 200, answer(text="hello you")) is not None
    assert send().verdict(NUMBER, 500, answer()) is not None
    assert send().verdict(NUMBER, 200, b"<html>") is not None
    assert send().verdict(NUMBER, 200, b'{"id":1,"error":{}}') is not None
    assert send().verdict(NUMBER, 200, b'{"id":1,"result":{"message":{}}}') is not None


def test_deltas_may_be_joined_but_not_lost_repeated_or_reordered() -> None:
    assert streamed(stream(delta(0), delta(1), delta(2)), A2A_1_0, 3) is None
    assert streamed(stream(delta(0), delta(1) + delta(2)), A2A_1_0, 3) is None
    assert streamed(stream(delta(0), delta(2)), A2A_1_0, 3) is not None
    assert streamed(stream(delta(0), delta(2), delta(1)), A2A_1_0, 3) is not None
    assert streamed(stream(delta(0), delta(1), delta(1), delta(2)), A2A_1_0, 3) is not None
    assert streamed(stream(*map(delta, range(3)), last="TASK_STATE_FAILED"), A2A_1_0, 3) is not None
    assert streamed([], A2A_1_0, 0) is not None


def test_percentiles_come_from_the_ordered_latencies() -> None:
    outcome = Outcome(latencies_ns=[3_000_000, 1_000_000, 2_000_000])
    assert outcome.percentile_ms(0.5) == 2.0
    assert outcome.percentile_ms(0.99) == 3.0
