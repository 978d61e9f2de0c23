from typing import get_args

from trunkline.model.outputs import ENDS_TURN, Output


def test_what_ends_a_turn() -> None:
    assert {kind.__name__ for kind in ENDS_TURN} == {
        "Question",
        "AuthNeeded",
        "DirectReply",
        "Final",
        "Failed",
        "Refused",
    }


def test_what_does_not_end_a_turn() -> None:
    assert {kind.__name__ for kind in set(get_args(Output)) - set(ENDS_TURN)} == {
        "Text",
        "TextReplaced",
        "TextPreview",
        "Block",
        "StageStarted",
        "StageEnded",
        "ArtifactEmitted",
        "ToolCalled",
        "ToolSummarized",
        "Note",
    }
