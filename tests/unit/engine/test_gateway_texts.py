import pytest

from trunkline.engine.decisions import Move, style_of
from trunkline.engine.gateway_texts import refusal_text
from trunkline.engine.queue_limits import BUSY, BUSY_ELSEWHERE, QUEUE_FULL
from trunkline.engine.transitions import Step
from trunkline.engine.turn_fold import TurnFold
from trunkline.model.calls import Refusal
from trunkline.model.outputs import Failed, Note, Output
from trunkline.model.profile import GatewayTexts
from trunkline.model.values import Part
from trunkline.settings.profiles import preset

HUB = preset("hub").texts
BUDGET = Refusal("budget_exhausted", "The budget is used up.", limit=1000)
OTHER_BUDGET = Refusal("budget_exhausted", "Your own budget is used up.")


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (BUDGET, "agent @acme/rust hit its daily budget (1000)"),
        (OTHER_BUDGET, "Your own budget is used up."),
        (BUSY, "agent is processing a turn for another caller"),
        (BUSY_ELSEWHERE, "agent is processing a turn for another caller"),
        (QUEUE_FULL, QUEUE_FULL.text),
    ],
    ids=lambda value: value.reason if isinstance(value, Refusal) else "",
)
def test_h11_the_hub_has_its_own_sentences_for_refusals(refusal: Refusal, expected: str) -> None:
    assert refusal_text(HUB, refusal, handle="acme/rust") == expected
    assert refusal_text(GatewayTexts(), refusal, handle="acme/rust") == refusal.text


def end_of(profile: str, output: Output) -> tuple[Step, str]:
    style = style_of(preset(profile))
    fold = TurnFold(
        run_id="r", task_id="t", context_id="c", names=style.names(1, set()), style=style
    )
    (move,) = fold.feed(output)
    assert isinstance(move, Move)
    assert move.message is not None
    return move.step, move.message.parts[0].text or ""


GONE = Failed("Nothing answers.", is_unreachable=True)
TRYING = Note((Part(text="Trying again."),), is_unreachable=True)


def test_h11_an_agent_that_cannot_be_reached_is_offline_at_once() -> None:
    assert end_of("hub", GONE) == (Step.FAIL, "agent channel offline")
    assert end_of("hub", TRYING) == (Step.FAIL, "agent channel offline")
    assert end_of("standard", GONE) == (Step.FAIL, "Nothing answers.")
    assert end_of("standard", TRYING) == (Step.NOTE, "Trying again.")


def test_other_failures_and_notes_keep_their_texts() -> None:
    assert end_of("hub", Failed("out of memory")) == (Step.FAIL, "out of memory")
    assert end_of("hub", Note((Part(text="working"),))) == (Step.NOTE, "working")
