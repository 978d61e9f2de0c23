"""One turn under the styles that a profile can choose."""

from typing import Any

import pytest

from trunkline.engine.decisions import STANDARD, Chunk, Move, OutputStyle, style_of
from trunkline.engine.media_types import UNREPRESENTABLE, AcceptedModes
from trunkline.engine.transitions import Step
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.outputs import (
    ArtifactEmitted,
    Block,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
    ToolCalled,
    ToolSummarized,
)
from trunkline.model.values import Artifact, Part, text_of
from trunkline.settings.profiles import preset

INBOUND = style_of(preset("openclaw-inbound"))
DESIGN = style_of(preset("openclaw-design"))
FILE = Part(url="https://x.test/a.png")


def parts(*contents: str | Part) -> tuple[Part, ...]:
    return tuple(Part(text=each) if isinstance(each, str) else each for each in contents)


def turn(
    style: OutputStyle = STANDARD,
    *,
    number: int = 1,
    made: tuple[str, ...] = (),
    modes: tuple[str, ...] = (),
) -> TurnFold:
    return TurnFold(
        run_id="r",
        task_id="t",
        context_id="c",
        names=style.names(number, set(made)),
        style=style,
        accepted=AcceptedModes.of(modes),
    )


def lines(fold: TurnFold, *outputs: Output) -> list[tuple[Any, ...]]:
    """What the turn decides, one line each."""
    return [_line(decision) for output in outputs for decision in fold.feed(output)]


def _line(decision: Chunk | Move) -> tuple[Any, ...]:
    if isinstance(decision, Move):
        message = decision.message
        said = () if message is None else (text_of(message.parts),)
        return (decision.step.value, *said, *(() if decision.is_kept else ("not kept",)))
    content = decision.artifact.parts
    is_text = all(part.text is not None for part in content)
    flags = ("append",) * decision.append + ("last",) * decision.last_chunk
    return (decision.artifact.artifact_id, text_of(content) if is_text else content, *flags)


def test_each_message_has_an_artifact_and_the_newest_is_the_answer() -> None:
    assert lines(
        turn(), Text("one"), StageStarted(), Text("tw"), Text("o"), StageStarted(), Final()
    ) == [
        ("answer", "one"),
        ("answer", "", "append", "last"),
        ("answer.2", "tw"),
        ("answer.2", "o", "append"),
        ("answer.2", "", "append", "last"),
        ("complete", "two"),
    ]
    again = lines(turn(number=2), Text("a"), StageStarted(), Block(parts("b")), Final())
    assert [line[0] for line in again[:-1]] == ["answer-2", "answer-2", "answer-2.2", "answer-2.2"]


def test_i9_the_status_is_the_newest_message_that_has_text() -> None:
    told = lines(turn(INBOUND), Text("one"), StageStarted(), StageEnded((FILE,)), Final())
    assert told[-1] == ("complete", "one")


def test_i9_growth_is_appended_and_another_text_replaces() -> None:
    assert lines(
        turn(INBOUND),
        TextPreview("He"),
        TextPreview("Hello"),
        TextReplaced("Bye"),
        StageEnded(parts("Bye now")),
        Final(),
    ) == [
        ("assistant-output-0001", "He"),
        ("assistant-output-0001", "llo", "append"),
        ("assistant-output-0001", "Bye"),
        ("assistant-output-0001", " now", "append", "last"),
        ("complete", "Bye now"),
    ]


def test_i9_in_between_what_streams_counts_more_than_the_whole_and_blocks() -> None:
    assert lines(
        turn(INBOUND),
        Block(parts("block")),
        Block(parts("two")),
        Text("stream"),
        Block(parts("three")),
        StageEnded(parts("whole")),
        Text("ed"),
        Final(),
    ) == [
        ("assistant-output-0001", "block"),
        ("assistant-output-0001", "\n\ntwo", "append"),
        ("assistant-output-0001", "stream"),
        ("assistant-output-0001", "ed", "append"),
        ("assistant-output-0001", "whole", "last"),
        ("complete", "whole"),
    ]


def test_i9_blanks_are_skipped() -> None:
    assert lines(turn(INBOUND), Text(" "), Text("\n"), Text("a"), Final()) == [
        ("assistant-output-0001", " \na"),
        ("assistant-output-0001", "", "append", "last"),
        ("complete", " \na"),
    ]
    blanks = (Text(" "), Block(parts("")), ToolSummarized(parts(" ")), Final(parts("\n")))
    empty = "OpenClaw completed without a user-visible terminal reply."
    assert lines(turn(INBOUND), *blanks) == [("complete", empty)]
    assert lines(turn(), Text(" "), Final()) == [("complete",)]


def test_i9_a_whole_answer_is_shown_and_then_closed() -> None:
    told = lines(turn(INBOUND), Final(parts("hi")))
    assert told == [
        ("assistant-output-0001", "hi"),
        ("assistant-output-0001", "", "append", "last"),
        ("complete", "hi"),
    ]
    first, closing, _ = turn(INBOUND).feed(Final(parts("hi")))
    assert isinstance(first, Chunk)
    assert isinstance(closing, Chunk)
    assert (first.is_open, closing.is_open, closing.artifact.parts) == (True, False, ())


def test_i9_ids_names_and_metadata() -> None:
    fold = turn(INBOUND)
    chunks = [
        decision.artifact
        for output in (
            ToolSummarized(parts("found")),
            Text("a"),
            ToolCalled(call_id="a.b/c", name="grep", phase="start", data={"q": 1}),
            Text("b"),
            StageStarted(),
            Text("c"),
        )
        for decision in fold.feed(output)
        if isinstance(decision, Chunk)
    ]
    assert [(each.artifact_id, each.name, each.metadata) for each in chunks] == [
        ("tool-result-0001", "tool-result-1", {"sequence": 1, "source": "tool-result-1"}),
        ("assistant-output-0001", "assistant-output-1", output_metadata(1, 2)),
        (
            "tool-progress-a_b_c",
            "grep progress",
            {
                "source": "tool",
                "phase": "start",
                "toolName": "grep",
                "toolCallId": "a.b/c",
                "sequence": 3,
            },
        ),
        ("assistant-output-0001", "assistant-output-1", output_metadata(1, 2)),
        ("assistant-output-0001", "assistant-output-1", output_metadata(1, 2)),
        ("assistant-output-0002", "assistant-output-2", output_metadata(2, 4)),
    ]


def output_metadata(number: int, sequence: int) -> dict[str, Any]:
    return {"sequence": sequence, "source": f"assistant-output-{number}"}


def called(phase: str, data: Any = None, *, call_id: str = "7", is_error: bool = False) -> Output:
    return ToolCalled(call_id=call_id, name="grep", phase=phase, data=data, is_error=is_error)


def test_i9_each_phase_of_a_tool_replaces_the_one_before() -> None:
    told = lines(
        turn(INBOUND),
        called("start", {"q": 1}),
        called("update", "50%"),
        called("result", [1]),
        called("other"),
    )
    head = {"name": "grep", "toolCallId": "7"}
    assert told == [
        (
            "tool-progress-7",
            (
                Part(text="Started tool grep"),
                Part(data={"phase": "start", **head} | {"args": {"q": 1}}),
            ),
        ),
        (
            "tool-progress-7",
            (
                Part(text="Updated tool grep"),
                Part(data={"phase": "update", **head, "partialResult": "50%"}),
            ),
        ),
        (
            "tool-progress-7",
            (
                Part(text="Completed tool grep"),
                Part(data={"phase": "result", **head, "result": [1], "isError": False}),
            ),
            "last",
        ),
    ]
    [(_, (text, _), _)] = lines(turn(INBOUND), called("result", "no", is_error=True))
    assert text == Part(text="Tool grep failed")


def test_d5_counters_go_on_through_the_turns_of_a_task() -> None:
    made = (
        "assistant-output-0001",
        "assistant-output-0012",
        "tool-result-0003",
        "tool-progress-7",
        "assistant-output-x",
    )
    told = lines(
        turn(INBOUND, number=2, made=made),
        called("start"),
        called("start", call_id="8"),
        called("result"),
        ToolSummarized(parts("s")),
        Text("a"),
    )
    assert [line[0] for line in told] == [
        "tool-progress-7-2",
        "tool-progress-8",
        "tool-progress-7-2",
        "tool-result-0004",
        "assistant-output-0013",
    ]


def test_calls_whose_ids_read_the_same_are_kept_apart() -> None:
    told = lines(turn(INBOUND), called("start", call_id="a.b"), called("start", call_id="a_b"))
    assert [line[0] for line in told] == ["tool-progress-a_b", "tool-progress-a_b-2"]


def test_summaries_of_tools_in_the_style_of_answers() -> None:
    told = turn(number=2).feed(ToolSummarized(parts("two hits"), "search"))
    assert told == (
        Chunk(
            Artifact(artifact_id="tool-result-2", name="search", parts=parts("two hits")),
            False,
            True,
        ),
    )
    fold = turn()
    names = [line[0] for line in lines(fold, *[ToolSummarized(parts("s"))] * 2)]
    assert names == ["tool-result", "tool-result.2"]


def test_d21_results_of_tools_are_json_text_under_their_name() -> None:
    told = turn(DESIGN).feed(called("result", {"hits": [1, 2]}))
    assert told == (
        Chunk(
            Artifact(artifact_id="tool-7", name="grep", parts=parts('{"hits":[1,2]}')),
            False,
            True,
        ),
    )
    assert lines(turn(DESIGN), called("start"), called("update", 1)) == []


def test_d21_text_goes_out_as_working_status_and_the_last_one_has_all_of_it() -> None:
    assert lines(turn(DESIGN), Text("Hel"), Text("lo"), Final()) == [
        ("note", "Hel", "not kept"),
        ("note", "lo", "not kept"),
        ("complete", "Hello"),
    ]
    assert lines(turn(DESIGN), Text("draft"), TextReplaced("clean"), Final((FILE,))) == [
        ("note", "draft", "not kept"),
        ("note", "clean", "not kept"),
        ("complete", ""),
    ]
    assert lines(turn(DESIGN), Block(parts("a")), Block(parts("b")), Final()) == [
        ("note", "a", "not kept"),
        ("note", "\n\nb", "not kept"),
        ("complete", "a\n\nb"),
    ]


def test_d20_without_an_artifact_the_status_has_the_files_too() -> None:
    [move] = turn(DESIGN).feed(Final(parts("see", FILE)))
    assert isinstance(move, Move)
    assert move.message is not None
    assert move.message.parts == parts("see", FILE)


def test_x14_text_in_the_status_with_the_whole_in_an_artifact_at_the_end() -> None:
    style = style_of(preset("standard", stream_shape="status-text"))
    assert lines(turn(style), Text("a"), Text("b"), Final()) == [
        ("note", "a", "not kept"),
        ("note", "b", "not kept"),
        ("answer", "ab", "last"),
        ("complete", "ab"),
    ]


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (("artifact",), [("answer", "hi", "last"), ("complete", "not kept")]),
        (("artifact", "status"), [("answer", "hi", "last"), ("complete", "hi", "not kept")]),
        (("status", "history"), [("complete", "hi")]),
        (("status",), [("complete", "hi", "not kept")]),
        (("artifact", "status", "history"), [("answer", "hi", "last"), ("complete", "hi")]),
    ],
)
def test_x15_the_answer_is_where_the_profile_wants_it(
    places: tuple[Any, ...], told: list[tuple[Any, ...]]
) -> None:
    style = style_of(preset("standard", result_in=places, stream_shape="snapshots"))
    assert lines(turn(style), Final(parts("hi"))) == told


def test_x15_questions_are_in_history_wherever_answers_are() -> None:
    style = style_of(preset("standard", result_in=("artifact",)))
    assert lines(turn(style), Question(parts("which?"))) == [("ask", "which?")]


def test_x25_a_refusal_may_be_a_failure() -> None:
    assert lines(turn(), Refused("no")) == [("refuse", "no")]
    assert lines(turn(style_of(preset("hub"))), Refused("no")) == [("fail", "no")]


@pytest.mark.parametrize(
    "style", [STANDARD, INBOUND, DESIGN], ids=["standard", "inbound", "design"]
)
def test_d16_the_error_is_in_the_status_and_the_partial_text_stays(style: OutputStyle) -> None:
    *before, end = lines(turn(style), Text("partial"), Failed("no network"))
    assert end == ("fail", "no network")
    assert "partial" in before[0]


def test_i12_a_canceled_turn_ends_with_what_it_said_last() -> None:
    fold = turn(INBOUND)
    lines(fold, Text("so "))
    assert [_line(each) for each in fold.hear(Text("far"))] == [
        ("assistant-output-0001", "far", "append")
    ]
    assert fold.hear(Note(parts("aside"))) == ()
    assert fold.hear(Failed("no")) == ()
    assert [_line(each) for each in fold.stop(Step.CANCEL, "canceled")] == [
        ("assistant-output-0001", "", "append", "last"),
        ("cancel", "so far"),
    ]
    assert [_line(each) for each in turn(INBOUND).stop(Step.CANCEL, "canceled")] == [
        ("cancel", "canceled")
    ]


def test_i12_the_answer_of_a_turn_that_is_being_stopped_does_not_complete_it() -> None:
    fold = turn(INBOUND)
    assert [_line(each) for each in fold.hear(Final(parts("done")))] == [
        ("assistant-output-0001", "done")
    ]
    assert fold.stop(Step.CANCEL, "")[-1].step is Step.CANCEL  # type: ignore[union-attr]


def test_d16_a_turn_that_is_failed_from_outside_ends_with_the_reason() -> None:
    fold = turn(INBOUND)
    lines(fold, Text("partial"))
    assert [_line(each) for each in fold.stop(Step.FAIL, "too late")] == [
        ("assistant-output-0001", "", "append", "last"),
        ("fail", "too late"),
    ]


def test_a_turn_that_is_stopped_just_ends_in_the_standard_style() -> None:
    fold = turn()
    lines(fold, Text("one"), StageStarted(), Text("two"))
    assert fold.stop(Step.CANCEL, "") == (Move(Step.CANCEL),)
    assert [_line(each) for each in fold.stop(Step.FAIL, "why")] == [("fail", "why")]


def test_i10_an_approval_pauses_after_the_result() -> None:
    waiting = called("result", {"status": "needs_approval", "requiresApproval": {"prompt": "Go?"}})
    told = lines(turn(INBOUND), Text("a"), waiting)
    assert [line[0] for line in told] == [
        "assistant-output-0001",
        "tool-progress-7",
        "assistant-output-0001",
        "ask",
    ]
    assert told[-1] == ("ask", "Go?")
    silent = called("result", {"status": "approval-pending"})
    text = "OpenClaw is waiting for tool approval to continue."
    assert lines(turn(INBOUND), silent)[-1] == ("ask", text)
    assert lines(turn(), silent)[-1] == ("ask", "The agent waits for your approval of a tool call.")


def test_what_the_caller_does_not_take_is_left_out() -> None:
    fold = turn(modes=("text/plain",))
    assert lines(fold, Text("see"), Final(parts("see", FILE))) == [
        ("answer", "see"),
        ("answer", "", "append", "last"),
        ("complete", "see"),
    ]
    fold = turn(modes=("image/png",))
    artifact = Artifact(artifact_id="a", parts=parts("words", FILE))
    [chunk] = fold.feed(ArtifactEmitted(artifact=artifact))
    assert isinstance(chunk, Chunk)
    assert chunk.artifact.parts == (FILE,)
    assert lines(fold, Text("words"), Final()) == [("complete",)]


@pytest.mark.parametrize(
    "style", [STANDARD, INBOUND, DESIGN], ids=["standard", "inbound", "design"]
)
@pytest.mark.parametrize(
    "outputs",
    [
        (Text("a"), Final()),
        (TextReplaced("a"), TextPreview("b"), Final()),
        (Block(parts("a")), Final()),
        (StageEnded(parts("a")), StageStarted(), Final(parts("b"))),
        (ArtifactEmitted(artifact=Artifact(artifact_id="a", parts=parts("a"))), Final()),
        (ToolSummarized(parts("a")), Final()),
    ],
)
def test_d1_an_answer_of_which_nothing_is_left_fails(
    style: OutputStyle, outputs: tuple[Output, ...]
) -> None:
    fold = turn(style, modes=("image/png", "audio/*"))
    [move] = [decision for output in outputs for decision in fold.feed(output)]
    assert isinstance(move, Move)
    assert move.message is not None
    assert (move.step, text_of(move.message.parts)) == (Step.FAIL, UNREPRESENTABLE)
    assert move.message.metadata == {
        "acceptedOutputModes": ["image/png", "audio/*"],
        "availableOutputModes": ["text/plain"],
    }


def test_tool_progress_and_questions_are_for_every_caller() -> None:
    fold = turn(INBOUND, modes=("image/png",))
    assert [line[0] for line in lines(fold, called("start"), Question(parts("which?")))] == [
        "tool-progress-7",
        "ask",
    ]


def test_a_long_answer_in_blocks_costs_each_block_once() -> None:
    fold = turn(INBOUND)
    told = lines(fold, *[Block(parts(f"block {number}")) for number in range(1000)])
    assert sum(len(line[1]) for line in told) < 1000 * 14


@pytest.mark.parametrize(
    ("style", "first", "second"),
    [
        (STANDARD, "answer", "answer.2"),
        (INBOUND, "assistant-output-0001", "assistant-output-0002"),
    ],
    ids=["standard", "inbound"],
)
def test_text_and_artifacts_of_one_turn_do_not_overwrite_each_other(
    style: OutputStyle, first: str, second: str
) -> None:
    own = ArtifactEmitted(artifact=Artifact(artifact_id=first, parts=parts("mine")))
    said = StageEnded(parts("text"))
    for outputs, ids in (((own, said), [first, second]), ((said, own), [first, f"{first}-own"])):
        fold = turn(style)
        chunks = [each for output in (*outputs, Final()) for each in fold.feed(output)]
        named = [each.artifact.artifact_id for each in chunks if isinstance(each, Chunk)]
        assert list(dict.fromkeys(named)) == ids
