"""What a run says, as outputs."""

from typing import Any

import msgspec
import pytest

from trunkline.backends.openclaw.frames import AgentEvent, ChatEvent, Fault, Response
from trunkline.backends.openclaw.outputs import FAILED, STOPPED, TIMED_OUT, RunFold, fit_for_callers
from trunkline.model.outputs import Failed, Final, StageStarted, Text, TextReplaced, ToolCalled
from trunkline.model.values import Part


def said(text: str, delta: str | None = None, item: str = "") -> AgentEvent:
    data: dict[str, Any] = {"text": text, "delta": delta}
    return AgentEvent(stream="assistant", data=data | ({"itemId": item} if item else {}))


def tool(phase: str, **data: Any) -> AgentEvent:
    return AgentEvent(
        stream="tool", data={"phase": phase, "name": "exec", "toolCallId": "c1", **data}
    )


def ended(payload: dict[str, Any], *, fault: Fault | None = None) -> Response:
    raw = msgspec.Raw(msgspec.json.encode(payload))
    return Response(id="1", ok=fault is None, payload=raw, error=fault)


def result(*texts: str, **more: Any) -> Response:
    payloads = [{"text": text, "mediaUrl": None} for text in texts]
    return ended({"status": "ok", "result": {"payloads": payloads, **more}})


def test_pieces_are_what_is_new() -> None:
    fold = RunFold()
    assert fold.hear(said("w0", "w0")) == [Text("w0")]
    assert fold.hear(said("w0 w1", " w1")) == [Text(" w1")]


def test_pieces_that_come_twice_or_were_missed_make_no_difference() -> None:
    fold = RunFold()
    fold.hear(said("w0", "w0"))
    assert fold.hear(said("w0", "w0")) == []
    assert fold.hear(said("w0 w1 w2", " w2")) == [Text(" w1 w2")]


def test_a_text_that_changed_replaces_what_was_told() -> None:
    fold = RunFold()
    fold.hear(said("w0 w1", "w0 w1", "a"))
    assert fold.hear(said("other", "er", "a")) == [TextReplaced("other")]


def test_pieces_without_the_whole_are_added() -> None:
    fold = RunFold()
    fold.hear(AgentEvent(stream="assistant", data={"delta": "a"}))
    assert fold.hear(AgentEvent(stream="assistant", data={"delta": "b"})) == [Text("b")]


@pytest.mark.parametrize("items", [("a", "b"), ("", "")], ids=["with ids", "without"])
def test_another_message_is_another_stage(items: tuple[str, str]) -> None:
    fold = RunFold()
    fold.hear(said("Let me see.", "Let me see.", items[0]))
    assert fold.hear(said("hi", "hi", items[1])) == [StageStarted(), Text("hi")]
    assert fold.end(result("hi")) == [Final((Part(text="hi"),))]


def test_trap_6_the_final_text_is_that_of_the_result() -> None:
    """Old releases leave the tail out of the pieces."""
    fold = RunFold()
    fold.hear(said("w0 w1", "w0 w1"))
    assert fold.end(result("w0 w1 w2 w3")) == [Final((Part(text="w0 w1 w2 w3"),))]


def test_trap_6_without_a_result_the_last_chat_event_has_it() -> None:
    fold = RunFold()
    message = {"role": "assistant", "content": [{"type": "text", "text": "all of it"}]}
    fold.hear_chat(ChatEvent(state="final", message=msgspec.Raw(msgspec.json.encode(message))))
    assert fold.end(result()) == [Final((Part(text="all of it"),))]


def test_passages_that_were_never_told_come_with_the_last() -> None:
    fold = RunFold()
    fold.hear(said("one", "one", "a"))
    fold.hear(said("three", "three", "b"))
    assert fold.end(result("one", "two", "three")) == [Final((Part(text="two\n\nthree"),))]


def test_a_link_is_a_file_and_a_path_is_nothing() -> None:
    payloads = [
        {"text": "see", "mediaUrl": "https://x.test/a.png"},
        {"mediaUrl": "/home/claw/secret.png"},
    ]
    answer = ended({"status": "ok", "result": {"payloads": payloads}})
    assert RunFold().end(answer) == [Final((Part(text="see"), Part(url="https://x.test/a.png")))]


def test_usage_goes_along() -> None:
    fold = RunFold()
    fold.hear(AgentEvent(stream="usage", data={"outputTokens": 3}))
    meta = {"agentMeta": {"usage": {"input": 5, "output": 4, "total": 9}}}
    [final] = fold.end(result("hi", meta=meta))
    assert isinstance(final, Final)
    assert final.metadata == {"usage": {"inputTokens": 5, "outputTokens": 4, "totalTokens": 9}}


def test_a_tool_is_told_without_what_its_host_knows() -> None:
    fold = RunFold()
    assert fold.hear(tool("start", args={"command": "ls"})) == [
        ToolCalled(call_id="c1", name="exec", phase="start", data={"command": "ls"})
    ]
    given = {"content": [{"type": "text", "text": "x"}], "details": {"cwd": "/srv", "pid": 7}}
    assert fold.hear(tool("result", result=given, isError=True)) == [
        ToolCalled(
            call_id="c1",
            name="exec",
            phase="result",
            data={"content": given["content"]},
            is_error=True,
        )
    ]


def test_a_tool_whose_start_was_missed_starts_first() -> None:
    heard = RunFold().hear(tool("result"))
    assert [one.phase for one in heard if isinstance(one, ToolCalled)] == ["start", "result"]


@pytest.mark.parametrize("data", [{}, {"phase": "start"}, {"phase": 1, "name": 2}, {"text": 3}])
def test_events_that_make_no_sense_are_passed_over(data: dict[str, Any]) -> None:
    for stream in ("tool", "assistant", "lifecycle", "usage", "never seen"):
        assert RunFold().hear(AgentEvent(stream=stream, data=data)) == []


def test_a_resumed_run_tells_all_it_has_first() -> None:
    fold = RunFold(is_resumed=True)
    assert fold.catch_up("w0 w1") == [TextReplaced("w0 w1")]
    assert fold.hear(said("w0 w1 w2", " w2")) == [Text(" w2")]


def test_catching_up_tells_only_what_is_new() -> None:
    fold = RunFold()
    fold.hear(said("w0", "w0"))
    assert fold.catch_up("w0 w1") == [Text(" w1")]
    assert fold.catch_up("w0 w1") == []
    # Some releases join all messages of a run there; the next piece will tell.
    assert fold.catch_up("before. w0 w1 w2") == []


def test_nothing_follows_the_end() -> None:
    fold = RunFold()
    fold.end(result("done"))
    assert fold.hear(said("more", "more")) == []
    assert fold.end(result("again")) == []
    assert fold.fail("late") == []


def test_an_aborted_run_says_timeout_and_means_stopped() -> None:
    aborted = ended({"status": "timeout", "summary": "aborted", "stopReason": "rpc"})
    assert RunFold().end(aborted) == [Failed(STOPPED)]


def test_a_run_that_took_too_long() -> None:
    assert RunFold().end(ended({"status": "timeout"})) == [Failed(TIMED_OUT)]


def test_a_failure_is_told_and_kept_for_the_log() -> None:
    fold = RunFold()
    fault = Fault(code="UNAVAILABLE", message="LLM request failed: overloaded")
    assert fold.end(ended({}, fault=fault)) == [
        Failed("The agent could not finish: LLM request failed: overloaded")
    ]
    assert fold.fault == "LLM request failed: overloaded"


def test_a_failure_within_a_result() -> None:
    payloads = [{"text": "⚠️ Agent run failed (model: fake).", "isError": True}]
    answer = ended({"status": "error", "summary": "failed", "result": {"payloads": payloads}})
    [failed] = RunFold().end(answer)
    assert failed == Failed("The agent could not finish: Agent run failed (model: fake).")


@pytest.mark.parametrize(
    "message",
    [
        "",
        "x" * 300,
        "no key in /home/claw/.openclaw/auth.json",
        "see https://internal.test",
        "bad key sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "Traceback\n  File",
    ],
)
def test_what_gives_its_machine_away_is_for_the_log(message: str) -> None:
    assert fit_for_callers(message) == FAILED


def test_the_name_of_an_error_is_left_out() -> None:
    assert fit_for_callers("FailoverError: overloaded") == "The agent could not finish: overloaded"
