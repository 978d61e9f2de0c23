from collections.abc import Sequence

import pytest

from trunkline.engine.artifact_styles import AnswerStyle
from trunkline.engine.decisions import Chunk, Decision, Metadata, Move
from trunkline.engine.transitions import Step
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    DirectReply,
    Failed,
    Final,
    Note,
    Output,
    Question,
    Refused,
    Text,
    TextReplaced,
    ToolCalled,
)
from trunkline.model.values import Artifact, Message, Part, Role
from trunkline.testing import play

FILE = Part(url="https://example.com/a.png", media_type="image/png")


def turn(number: int = 1) -> TurnFold:
    return TurnFold(run_id="r", task_id="t", context_id="c", names=AnswerStyle(number, set()))


def script(fold: TurnFold, *steps: tuple[Output, Sequence[Decision]]) -> None:
    play(fold.feed, *steps)


def said(number: int, *parts: Part | str, metadata: Metadata = None) -> Message:
    return Message(
        message_id=f"r.{number}",
        context_id="c",
        task_id="t",
        role=Role.AGENT,
        parts=parts_of(parts),
        metadata=metadata,
    )


def parts_of(parts: tuple[Part | str, ...]) -> tuple[Part, ...]:
    return tuple(Part(text=part) if isinstance(part, str) else part for part in parts)


def answer(
    *parts: Part | str,
    append: bool = False,
    last: bool = False,
    artifact_id: str = "answer",
    metadata: Metadata = None,
    closing: bool = False,
) -> Chunk:
    artifact = Artifact(
        artifact_id=artifact_id, name="answer", parts=parts_of(parts), metadata=metadata
    )
    return Chunk(artifact, append, last, closing)


CLOSE = answer("", append=True, last=True, closing=True)


def test_text_streams_into_one_artifact_and_is_repeated_in_the_last_message() -> None:
    script(
        turn(),
        (Text("Hel"), [answer("Hel")]),
        (Text("lo"), [answer("lo", append=True)]),
        (Final(), [CLOSE, Move(Step.COMPLETE, said(1, "Hello"))]),
    )


def test_empty_pieces_are_nothing() -> None:
    script(turn(), (Text(""), []), (Text("a"), [answer("a")]), (Text(""), []))


def test_a_turn_without_a_word_just_completes() -> None:
    script(turn(), (Final(), [Move(Step.COMPLETE)]))


def test_the_final_answer_stands_in_place_of_the_text_so_far() -> None:
    script(
        turn(),
        (Text("dra"), [answer("dra")]),
        (
            Final((Part(text="clean"), FILE)),
            [answer("clean", FILE, last=True), Move(Step.COMPLETE, said(1, "clean"))],
        ),
    )


def test_a_final_answer_without_text_leaves_the_message_out() -> None:
    script(turn(), (Final((FILE,)), [answer(FILE, last=True), Move(Step.COMPLETE)]))


def test_a_direct_reply_in_a_task_is_its_answer() -> None:
    parts = (Part(text="yes"),)
    expected: list[Decision] = [
        answer("yes", last=True),
        Move(Step.COMPLETE, said(1, "yes")),
    ]
    script(turn(), (DirectReply(parts), expected))
    script(turn(), (Final(parts), expected))


@pytest.mark.parametrize("kind", [Final, DirectReply])
def test_metadata_of_the_answer_goes_with_it(kind: type[Final] | type[DirectReply]) -> None:
    metadata = {"model": "m"}
    script(
        turn(),
        (
            kind((Part(text="yes"),), metadata),
            [
                answer("yes", last=True, metadata=metadata),
                Move(Step.COMPLETE, said(1, "yes", metadata=metadata)),
            ],
        ),
    )


def test_metadata_of_an_answer_that_was_streamed_comes_with_its_end() -> None:
    metadata = {"model": "m"}
    script(
        turn(),
        (Text("yes"), [answer("yes")]),
        (
            Final(metadata=metadata),
            [
                answer("", append=True, last=True, metadata=metadata),
                Move(Step.COMPLETE, said(1, "yes", metadata=metadata)),
            ],
        ),
    )


def test_a_replacement_that_continues_the_text_is_a_further_piece() -> None:
    script(
        turn(),
        (TextReplaced("He"), [answer("He")]),
        (TextReplaced("Hello"), [answer("llo", append=True)]),
        (TextReplaced("Hello"), []),
        (Text("!"), [answer("!", append=True)]),
        (TextReplaced("Hello!?"), [answer("?", append=True)]),
        (Final(), [CLOSE, Move(Step.COMPLETE, said(1, "Hello!?"))]),
    )


def test_a_replacement_that_differs_starts_the_text_anew() -> None:
    script(
        turn(),
        (Text("Hello"), [answer("Hello")]),
        (TextReplaced("Bye"), [answer("Bye")]),
        (Text("!"), [answer("!", append=True)]),
        (TextReplaced(""), [answer("")]),
        (Text("So"), [answer("So", append=True)]),
        (Final(), [CLOSE, Move(Step.COMPLETE, said(1, "So"))]),
    )


def test_a_replacement_by_nothing_of_nothing_is_nothing() -> None:
    script(turn(), (TextReplaced(""), []), (Final(), [Move(Step.COMPLETE)]))


@pytest.mark.parametrize(
    ("output", "step"),
    [
        (Question((Part(text="which?"),)), Step.ASK),
        (AuthNeeded((Part(text="which?"),)), Step.NEED_AUTH),
        (Failed("which?"), Step.FAIL),
        (Refused("which?"), Step.REFUSE),
    ],
    ids=["question", "auth", "failed", "refused"],
)
def test_other_ends_keep_what_was_said_so_far(output: Output, step: Step) -> None:
    end = Move(step, said(1, "which?"))
    script(turn(), (output, [end]))
    script(turn(), (Text("partial"), [answer("partial")]), (output, [CLOSE, end]))


def test_messages_of_a_turn_have_different_ids() -> None:
    script(
        turn(),
        (Note((Part(text="looking"),)), [Move(Step.NOTE, said(1, "looking"))]),
        (Note((Part(text="found"),)), [Move(Step.NOTE, said(2, "found"))]),
        (Final((Part(text="it"),)), [answer("it", last=True), Move(Step.COMPLETE, said(3, "it"))]),
    )


def test_an_artifact_is_appended_only_to_what_this_turn_sent() -> None:
    artifact = Artifact(artifact_id="a", parts=(FILE,))
    other = Artifact(artifact_id="b", parts=(FILE,))
    script(
        turn(),
        (
            ArtifactEmitted(artifact=artifact, append=True, last_chunk=False),
            [Chunk(artifact, False, False)],
        ),
        (ArtifactEmitted(artifact=artifact, append=True), [Chunk(artifact, True, True)]),
        (ArtifactEmitted(artifact=other, append=True), [Chunk(other, False, True)]),
        (ArtifactEmitted(artifact=artifact), [Chunk(artifact, False, True)]),
    )


def emitted(artifact_id: str, text: str, *, append: bool = False) -> ArtifactEmitted:
    artifact = Artifact(artifact_id=artifact_id, parts=(Part(text=text),))
    return ArtifactEmitted(artifact=artifact, append=append)


def test_text_does_not_overwrite_an_artifact_that_the_agent_calls_the_answer() -> None:
    own = emitted("answer", "mine")
    script(
        turn(),
        (own, [Chunk(own.artifact, append=False, last_chunk=True)]),
        (Text("hi"), [answer("hi", artifact_id="answer.2")]),
        (
            emitted("answer", "!", append=True),
            [Chunk(emitted("answer", "!").artifact, append=True, last_chunk=True)],
        ),
    )


def test_an_artifact_that_the_agent_calls_the_answer_does_not_overwrite_text() -> None:
    script(
        turn(2),
        (Text("hi"), [answer("hi", artifact_id="answer-2")]),
        (
            emitted("answer-2", "mine"),
            [Chunk(emitted("answer-2-own", "mine").artifact, append=False, last_chunk=True)],
        ),
        (
            emitted("answer-2", "!", append=True),
            [Chunk(emitted("answer-2-own", "!").artifact, append=True, last_chunk=True)],
        ),
        (Text("!"), [answer("!", artifact_id="answer-2", append=True)]),
    )


def test_an_agent_gives_a_new_version_of_what_an_earlier_turn_made_by_its_id() -> None:
    later = TurnFold(
        run_id="r", task_id="t", context_id="c", names=AnswerStyle(2, {"answer", "plan"})
    )
    for artifact_id in ("answer", "plan"):
        own = emitted(artifact_id, "better")
        script(later, (own, [Chunk(own.artifact, append=False, last_chunk=True)]))


def test_the_answer_at_once_gives_way_as_well() -> None:
    own = emitted("answer", "mine")
    script(
        turn(),
        (own, [Chunk(own.artifact, append=False, last_chunk=True)]),
        (
            Final((Part(text="hi"),)),
            [
                answer("hi", artifact_id="answer.2", last=True),
                Move(Step.COMPLETE, said(1, "hi")),
            ],
        ),
    )


def test_each_call_of_a_tool_is_an_artifact_that_shows_its_latest_phase() -> None:
    def shown(phase: str, data: object, *, last: bool, is_error: bool = False) -> Chunk:
        content = {"tool": "grep", "phase": phase, "data": data}
        return Chunk(
            Artifact(
                artifact_id="tool-7",
                name="grep",
                parts=(Part(data=content | ({"isError": True} if is_error else {})),),
                metadata={
                    "source": "tool",
                    "toolName": "grep",
                    "toolCallId": "7",
                    "phase": phase,
                },
            ),
            False,
            last,
        )

    def called(phase: str, data: object, is_error: bool = False) -> ToolCalled:
        return ToolCalled(call_id="7", name="grep", phase=phase, data=data, is_error=is_error)

    script(
        turn(),
        (called("start", {"q": "x"}), [shown("start", {"q": "x"}, last=False)]),
        (called("update", 50), [shown("update", 50, last=False)]),
        (called("result", None), [shown("result", None, last=True)]),
        (called("result", "no", True), [shown("result", "no", last=True, is_error=True)]),
    )


def test_later_turns_do_not_overwrite_the_artifacts_of_earlier_ones() -> None:
    script(
        turn(2),
        (Text("a"), [answer("a", artifact_id="answer-2")]),
        (
            Final(),
            [
                answer("", append=True, last=True, closing=True, artifact_id="answer-2"),
                Move(Step.COMPLETE, said(1, "a")),
            ],
        ),
    )
    (chunk,) = turn(3).feed(ToolCalled(call_id="7", name="grep", phase="start"))
    assert isinstance(chunk, Chunk)
    assert chunk.artifact.artifact_id == "tool-7-3"


def test_a_chunk_may_be_appended_to_an_artifact_of_an_earlier_turn() -> None:
    turn = TurnFold(run_id="run-2", task_id="task", context_id="ctx", names=AnswerStyle(2, {"log"}))
    more = Artifact(artifact_id="log", parts=(Part(text="more"),))
    (chunk,) = turn.feed(ArtifactEmitted(artifact=more, append=True, last_chunk=False))
    assert chunk == Chunk(more, append=True, last_chunk=False)
