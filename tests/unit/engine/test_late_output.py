"""X-10: what a stopped run still says."""

import pytest

from trunkline.engine.late_output import MAX_LATE_CHARS, LateOutput
from trunkline.model.outputs import (
    Block,
    Failed,
    Final,
    Note,
    Output,
    StageStarted,
    Text,
    TextReplaced,
)
from trunkline.model.values import Part


def late(*outputs: Output) -> LateOutput:
    kept = LateOutput()
    for output in outputs:
        assert not kept.hear(output)
    return kept


def test_the_text_of_each_message_is_kept() -> None:
    kept = late(
        Text("on "),
        Text("my way"),
        StageStarted(),
        Block((Part(text="there"),)),
        Note((Part(text="aside"),)),
        StageStarted(),
        Final(),
        Failed("no"),
    )
    assert kept.text == "on my way\n\nthere"
    assert late(Text("draft"), Final((Part(text="clean"),))).text == "clean"
    assert late(StageStarted(), Text(" ")).text == ""


@pytest.mark.parametrize("output", [Text("x" * 1000), TextReplaced("y" * 1000), StageStarted()])
def test_it_does_not_grow_without_end(output: Output) -> None:
    kept = LateOutput()
    count = 1
    while not kept.hear(output):
        count += 1
    assert count <= MAX_LATE_CHARS
    assert len(kept.text) <= MAX_LATE_CHARS
