"""I-8: what makes a direct run a task, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.media_types import AcceptedModes
from trunkline.engine.promotion import Direct, Outcome, Staging, Unrepresentable, Verdict
from trunkline.model.outputs import (
    ArtifactEmitted,
    AuthNeeded,
    Block,
    DirectReply,
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
from trunkline.model.values import Artifact, Part

HOLD, PROMOTE = Verdict.HOLD, Verdict.PROMOTE
HI = (Part(text="hi"),)
FILE = Part(url="https://x.test/a.png")
TOOL = ToolCalled(call_id="1", name="grep", phase="start")

HELD = (
    Text("a"),
    Text(" "),
    TextPreview("b"),
    TextReplaced("c"),
    Block(HI),
    StageStarted(),
    StageEnded(HI),
    ToolCalled(call_id="1", name="grep", phase="other"),
)
PROMOTING = (
    TOOL,
    ToolSummarized(HI),
    Note(HI),
    ArtifactEmitted(artifact=Artifact(artifact_id="a", parts=HI)),
    Question(HI),
    AuthNeeded(HI),
    Failed("no"),
    Refused("no"),
)
ENDS = (Final(), Final(HI), Final((Part(text=" "),)), DirectReply(HI))


def hybrid(accepted: AcceptedModes | None = None) -> Staging:
    return Staging(is_hybrid=True, accepted=accepted)


def outcomes(staging: Staging, *outputs: Output) -> list[Outcome]:
    """Up to the first that decides."""
    seen: list[Outcome] = []
    for output in outputs:
        seen.append(staging.feed(output))
        if seen[-1] is not HOLD:
            break
    return seen


def decided(*outputs: Output) -> Outcome:
    return outcomes(hybrid(), *outputs)[-1]


def test_i8_deltas_and_blocks_never_promote() -> None:
    pieces: list[Output] = [Text("a"), TextPreview("ab"), Block(HI), TextReplaced("abc")] * 500
    staging = hybrid()
    assert set(outcomes(staging, *pieces)) == {HOLD}
    assert staging.feed(Final()) == Direct((Part(text="abc"),))


def test_i8_media_does_not_promote() -> None:
    assert decided(Block((FILE,)), Final()) == Direct((FILE,))
    assert decided(StageEnded((*HI, FILE)), Final()) == Direct((*HI, FILE))


@pytest.mark.parametrize("output", PROMOTING, ids=lambda output: type(output).__name__)
def test_i8_4_5_7_9_what_needs_a_task_promotes(output: Output) -> None:
    staging = hybrid()
    assert outcomes(staging, Text("a"), output) == [HOLD, PROMOTE]
    assert staging.take() == [Text("a"), output]


@pytest.mark.parametrize(
    "called",
    [
        ToolCalled(call_id="1", name="grep", phase="other"),
        ToolCalled(call_id="1", name="", phase="start"),
        ToolCalled(call_id="", name="grep", phase="start"),
    ],
)
def test_i8_5_a_tool_event_without_phase_name_or_id_is_ignored(called: ToolCalled) -> None:
    assert decided(called, Text("a"), called, Final()) == Direct((Part(text="a"),))


def test_i8_6_a_second_message_promotes() -> None:
    assert decided(StageStarted(), Text("a"), StageStarted()) is PROMOTE
    assert decided(Text("a"), StageStarted()) is PROMOTE
    assert decided(Block(HI), StageStarted()) is PROMOTE
    assert decided(StageEnded(HI), StageEnded(HI)) is PROMOTE
    assert decided(StageEnded(HI), Final(HI)) is PROMOTE


def test_i8_6_a_message_that_said_nothing_is_none() -> None:
    assert decided(StageStarted(), StageStarted(), Text(" "), StageStarted(), Text("a")) is HOLD
    assert decided(Text("\n"), StageStarted(), Text("a"), Final()) == Direct((Part(text="a"),))


def test_i8_8_no_content_at_all_promotes() -> None:
    assert decided(Final()) is PROMOTE
    assert decided(Text(" "), Block(()), StageEnded((Part(text=""),)), Final()) is PROMOTE


def test_i8_the_reply_is_the_message_in_the_form_that_counts_most() -> None:
    whole = (Part(text="whole"),)
    assert decided(Text("a"), Block(HI), StageEnded(whole), Final()) == Direct(whole)
    assert decided(Text("a"), Block(HI), Final(whole, {"k": 1})) == Direct(whole, {"k": 1})
    assert decided(Text("a"), DirectReply(whole)) == Direct(whole)
    assert decided(Block(HI), Block(HI), Final()) == Direct((Part(text="hi\n\nhi"),))


def test_what_was_held_back_comes_in_order_with_its_text_in_one_piece() -> None:
    staging = hybrid()
    outcomes(staging, Text("a"), Text("b"), Block(HI), Text("c"), TOOL)
    assert staging.take() == [Text("ab"), Block(HI), Text("c"), TOOL]
    assert staging.take() == []


def test_d1_content_that_the_caller_does_not_take_is_no_reply_and_no_task() -> None:
    images = AcceptedModes.of(("image/*",))
    assert outcomes(hybrid(images), Text("a"), Final())[-1] == Unrepresentable(("text/plain",))
    assert outcomes(hybrid(images), Final((*HI, FILE)))[-1] == Direct((FILE,))
    text = AcceptedModes.of(("text/plain",))
    data = Part(data={"a": 1})
    outcome = outcomes(hybrid(text), Final((FILE, data, FILE)))[-1]
    assert outcome == Unrepresentable(("image/png", "application/json"))


def test_an_agent_that_declares_its_replies_needs_a_task_for_all_else() -> None:
    for output in (*HELD[:-1], *PROMOTING, *ENDS[:-1]):
        assert Staging(is_hybrid=False).feed(output) is PROMOTE
    assert Staging(is_hybrid=False).feed(DirectReply(HI)) == Direct(HI)


def is_task(outputs: list[Output]) -> bool:
    """The rules of I-8 read off the whole of a run, with no state between its outputs."""
    shown = [each for each in outputs if not (isinstance(each, ToolCalled) and not each.is_known)]
    if any(each in PROMOTING for each in shown):
        return True
    messages: list[list[Output]] = [[]]
    for each in shown:
        if isinstance(each, StageStarted):
            messages.append([])
        else:
            messages[-1].append(each)
    active = [message for message in messages if any(map(says, message))]
    if len(active) > 1 or (active and active[-1] is not messages[-1]):
        return True
    if any(sum(map(is_whole, message)) > 1 for message in messages):
        return True
    return isinstance(outputs[-1], Final | DirectReply) and not active


def says(output: Output) -> bool:
    match output:
        case Text():
            return bool(output.delta.strip())
        case TextPreview() | TextReplaced():
            return bool(output.text.strip())
        case Block() | StageEnded() | Final() | DirectReply():
            return any(part.text is None or part.text.strip() for part in output.parts)
        case _:
            return False


def is_whole(output: Output) -> bool:
    is_end = isinstance(output, Final | DirectReply) and bool(output.parts)
    return is_end or isinstance(output, StageEnded)


@given(
    st.lists(st.sampled_from((*HELD, *PROMOTING)), max_size=6),
    st.sampled_from(ENDS),
)
def test_i8_it_agrees_with_the_rules_read_off_the_whole_run(
    outputs: list[Output], end: Output
) -> None:
    run = [*outputs, end]
    staging = hybrid()
    seen = outcomes(staging, *run)
    fed = [run[: number + 1] for number in range(len(seen))]
    assert [outcome is PROMOTE for outcome in seen] == [is_task(prefix) for prefix in fed]
    # Nothing that showed is lost on the way into the task, and in order.
    if seen[-1] is PROMOTE:
        shown = [each for each in fed[-1] if each is not HELD[-1]]
        assert texts(staging.take()) == texts(shown)


def texts(outputs: list[Output]) -> list[object]:
    """Pieces of text put together, the rest as it is."""
    merged: list[object] = []
    for output in outputs:
        if isinstance(output, Text) and merged and isinstance(merged[-1], str):
            merged[-1] += output.delta
        else:
            merged.append(output.delta if isinstance(output, Text) else output)
    return merged
