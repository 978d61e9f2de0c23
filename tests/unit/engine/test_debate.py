"""The rules of a debate, played without a gateway."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.debate import cut_short, next_of
from trunkline.engine.debate_arguments import Debate, Participant
from trunkline.engine.plans import Finished, Step, StepEnd, step_end
from trunkline.model.call_outcomes import CallOutcome, StructuredAnswer

TIMEOUT = CallOutcome("error", code="timeout", text="Agent call timed out after 60000ms")


def debate(*critics: Participant, **more: Any) -> Debate:
    return Debate(
        topic="Which moon?",
        proposer=Participant(agent="acme/poet", skill="write"),
        critics=critics or (Participant(agent="acme/sceptic", skill="critique"),),
        resolver=Participant(agent="acme/judge"),
        timeout_ms=60_000,
        total_ms=360_000,
        **more,
    )


def critic(name: str, **more: Any) -> Participant:
    return Participant(agent=f"acme/{name}", **more)


def said(output: Any, confidence: float = 0.5, *assumptions: str) -> StepEnd:
    answer = StructuredAnswer(output, confidence, assumptions)
    return step_end(CallOutcome("completed", answer=answer), "t")


def found(*flaws: str, confidence: float = 0.5, alternatives: Any = ()) -> StepEnd:
    return said({"flaws": [*flaws], "alternatives": alternatives}, confidence)


FAILED = step_end(TIMEOUT, "t")


class Played:
    """A debate with the ends of its calls so far."""

    def __init__(self, of: Debate) -> None:
        self.of = of
        self.done: dict[str, StepEnd] = {}

    @property
    def wanted(self) -> tuple[Step, ...]:
        found = next_of(self.of, self.done)
        assert isinstance(found, tuple)
        return found

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.wanted]

    @property
    def input(self) -> Any:
        (step,) = self.wanted
        return step.call.input

    @property
    def result(self) -> dict[str, Any]:
        found = next_of(self.of, self.done)
        assert isinstance(found, Finished)
        assert msgspec.json.decode(msgspec.json.encode(found.output)) == found.output
        return found.output

    def ends(self, name: str, end: StepEnd) -> None:
        assert name in self.names
        self.done[name] = end


def test_a_proposal_that_is_sure_goes_straight_to_the_resolver() -> None:
    played = Played(debate(input={"style": "short"}))
    (step,) = played.wanted
    assert step.name == "proposal"
    assert (step.call.agent, step.call.skill, step.call.mode) == ("acme/poet", "write", "execute")
    assert step.call.input == {"style": "short", "topic": "Which moon?"}
    assert (step.call.timeout_ms, step.call.waits) == (60_000, True)
    played.ends("proposal", said("Io", 0.95, "it is round"))
    assert played.names == ["resolution"]
    assert played.input == {"topic": "Which moon?", "finalProposal": "Io", "rounds": []}
    played.ends("resolution", said("Io it is", 0.7, "it is round", "it is far"))
    assert played.result == {
        "status": "resolved",
        "topic": "Which moon?",
        "conclusion": "Io it is",
        "confidence": 0.7,
        "confidenceHistory": [0.95, 0.7],
        "rounds": [],
        "assumptions": ["it is round", "it is far"],
    }


def test_critics_find_flaws_and_the_proposer_refines_until_it_is_sure_enough() -> None:
    played = Played(debate(critic("sceptic", skill="critique", perspective="cost", weight=0.5)))
    played.ends("proposal", said("Io", 0.6, "it is round"))
    (step,) = played.wanted
    assert (step.name, step.call.agent) == ("round 1, critic 1", "acme/sceptic")
    assert (step.call.skill, step.call.mode) == ("critique", "critique")
    assert step.call.input == {
        "topic": "Which moon?",
        "proposal": "Io",
        "perspective": "cost",
        "round": 1,
    }
    played.ends("round 1, critic 1", found("too hot", confidence=0.4, alternatives=["Europa"]))
    critique = {
        "critic": "critic 1",
        "agent": "acme/sceptic",
        "perspective": "cost",
        "weight": 0.5,
        "confidence": 0.4,
        "flaws": ["too hot"],
        "alternatives": ["Europa"],
    }
    assert played.names == ["round 1, refinement"]
    assert played.input == {
        "topic": "Which moon?",
        "originalProposal": "Io",
        "critiques": [critique],
        "addressedConcerns": [],
        "round": 1,
    }
    played.ends("round 1, refinement", said("Europa", 0.9, "it is round", "there is ice"))
    held = {
        "round": 1,
        "proposal": "Io",
        "confidence": 0.6,
        "critiques": [critique],
        "criticConfidence": 0.4,
        "refined": "Europa",
        "refinedConfidence": 0.9,
    }
    assert played.input == {
        "topic": "Which moon?",
        "finalProposal": "Europa",
        "debateHistory": [held],
        "assumptions": ["it is round", "there is ice"],
    }
    played.ends("resolution", said("Europa it is", 0.8))
    assert played.result == {
        "status": "unresolved",
        "topic": "Which moon?",
        "conclusion": "Europa it is",
        "confidence": 0.8,
        "confidenceHistory": [0.6, 0.9, 0.8],
        "rounds": [held],
        "dissent": [critique],
        "assumptions": ["it is round", "there is ice"],
    }


def test_a_proposal_that_is_sure_enough_is_criticised_once_and_not_refined() -> None:
    played = Played(debate(min_confidence=0.6))
    played.ends("proposal", said("Io", 0.6))
    played.ends("round 1, critic 1", found("too hot", confidence=0.7))
    assert played.names == ["resolution"]
    played.ends("resolution", said("Io", 0.6))
    assert played.result["status"] == "resolved"
    assert "dissent" not in played.result


def test_all_rounds_are_played_while_the_proposer_is_not_sure() -> None:
    played = Played(debate(rounds=2))
    played.ends("proposal", said("Io", 0.1))
    for number in (1, 2):
        played.ends(f"round {number}, critic 1", found(f"flaw {number}", f"flaw {number}"))
        concerns = played.input["addressedConcerns"]
        assert concerns == ["flaw 1"][: number - 1]
        played.ends(f"round {number}, refinement", said(f"Io {number}", number / 10))
    played.ends("resolution", said("Io", 0.9))
    assert played.result["confidenceHistory"] == [0.1, 0.1, 0.2, 0.9]
    assert [held["proposal"] for held in played.result["rounds"]] == ["Io", "Io 1"]
    assert played.result["status"] == "resolved"


def test_three_critics_are_asked_at_once() -> None:
    played = Played(debate(*[critic(f"c{n}") for n in range(1, 6)]))
    played.ends("proposal", said("Io"))
    assert played.names == [f"round 1, critic {n}" for n in (1, 2, 3)]
    played.ends("round 1, critic 2", found("flaw"))
    # Those that are under way stay among the wanted ones.
    assert played.names == [f"round 1, critic {n}" for n in (1, 3, 4)]
    for n in (1, 3, 4):
        played.ends(f"round 1, critic {n}", found("flaw"))
    assert played.names == ["round 1, critic 5"]


def test_a_failed_critic_is_a_critique_without_confidence() -> None:
    played = Played(debate(critic("a"), critic("b")))
    played.ends("proposal", said("Io"))
    played.ends("round 1, critic 1", FAILED)
    played.ends("round 1, critic 2", found("too hot", confidence=0.8))
    first, second = played.input["critiques"]
    assert first["confidence"] == 0.0
    assert first["flaws"] == ["Critic failed: Agent call timed out after 60000ms"]
    assert second["flaws"] == ["too hot"]
    played.ends("round 1, refinement", said("Europa", 0.9))
    (held,) = played.input["debateHistory"]
    assert held["criticConfidence"] == 0.4


def test_the_weights_of_critics_count() -> None:
    played = Played(debate(critic("a", weight=1.0), critic("b", weight=0.25)))
    played.ends("proposal", said("Io"))
    played.ends("round 1, critic 1", found("x", confidence=0.4))
    played.ends("round 1, critic 2", found("y", confidence=0.9))
    played.ends("round 1, refinement", said("Europa", 0.9))
    (held,) = played.input["debateHistory"]
    assert held["criticConfidence"] == 0.5


def test_a_round_without_half_of_the_weight_does_not_end_the_debate() -> None:
    played = Played(debate(critic("a", weight=1.0), critic("b", weight=0.5), rounds=2))
    played.ends("proposal", said("Io", 0.9))
    played.ends("round 1, critic 1", FAILED)
    played.ends("round 1, critic 2", found("x"))
    played.ends("round 1, refinement", said("Io again", 0.94))
    assert played.names == ["round 2, critic 1", "round 2, critic 2"]
    played.ends("round 2, critic 1", found("y"))
    played.ends("round 2, critic 2", FAILED)
    assert played.names == ["resolution"]


def test_when_all_critics_fail_the_debate_does() -> None:
    played = Played(debate(critic("a"), critic("b")))
    played.ends("proposal", said("Io", 0.6, "it is round"))
    played.ends("round 1, critic 1", FAILED)
    played.ends("round 1, critic 2", FAILED)
    result = played.result
    assert result["status"] == "error"
    assert result["error"] == {
        "code": "critics_failed",
        "message": "All critics failed in round 1",
    }
    assert [len(held["critiques"]) for held in result["rounds"]] == [2]
    assert (result["confidence"], result["confidenceHistory"]) == (0.6, [0.6])
    assert result["assumptions"] == ["it is round"]


def test_a_debate_fails_with_its_proposer_and_with_its_resolver() -> None:
    for failing, code, rounds in (
        ("proposal", "proposer_failed", 0),
        ("round 1, refinement", "refine_failed", 1),
        ("resolution", "resolver_failed", 1),
    ):
        played = Played(debate(rounds=1))
        while (step := played.names[0]) != failing:
            played.ends(step, said("Io", 0.5))
        played.ends(failing, FAILED)
        assert played.result["error"]["code"] == code
        assert "timed out after" in played.result["error"]["message"]
        assert len(played.result["rounds"]) == rounds


def test_a_question_of_a_participant_counts_as_a_failure() -> None:
    played = Played(debate())
    asks = CallOutcome("input_required", text="Which century?")
    played.ends("proposal", step_end(asks, "t"))
    assert played.result["error"]["message"] == "The proposer failed: Which century?"


def test_a_debate_that_is_cut_short_keeps_the_rounds_so_far() -> None:
    played = Played(debate())
    assert cut_short(played.of, played.done).output["confidenceHistory"] == []
    played.ends("proposal", said("Io", 0.5))
    played.ends("round 1, critic 1", found("too hot"))
    cut = cut_short(played.of, played.done).output
    assert cut["status"] == "error"
    assert cut["error"] == {
        "code": "total_timeout",
        "message": "The debate did not end within 360 s",
    }
    assert [held["critiques"][0]["flaws"] for held in cut["rounds"]] == [["too hot"]]
    assert cut["confidence"] == 0.5


def test_in_an_anonymous_debate_only_the_result_names_critics() -> None:
    played = Played(debate(critic("a"), is_anonymous=True, rounds=1))
    played.ends("proposal", said("Io"))
    played.ends("round 1, critic 1", found("too hot"))
    (critique,) = played.input["critiques"]
    assert critique["critic"] == "critic 1"
    assert "agent" not in critique
    played.ends("round 1, refinement", said("Europa"))
    assert "acme/a" not in str(played.input)
    played.ends("resolution", said("Europa"))
    assert played.result["rounds"][0]["critiques"][0]["agent"] == "acme/a"


def test_the_proposer_refines_by_a_skill_of_its_own_if_it_has_one() -> None:
    for refine_skill, expected in (("refine", "refine"), ("", "write")):
        played = Played(debate(refine_skill=refine_skill))
        played.ends("proposal", said("Io"))
        played.ends("round 1, critic 1", found("too hot"))
        (step,) = played.wanted
        assert (step.call.agent, step.call.skill) == ("acme/poet", expected)


def test_what_a_critic_says_without_a_form_is_its_flaw() -> None:
    for output, flaws, alternatives in (
        ("It is too hot.", ["It is too hot."], []),
        ({"verdict": "no"}, ['{"verdict":"no"}'], []),
        ({"flaws": "too hot", "alternatives": "Europa"}, ["too hot"], ["Europa"]),
        ({"alternatives": [{"moon": "Europa"}]}, [], [{"moon": "Europa"}]),
        ({"flaws": [{"why": "hot"}]}, ['{"why":"hot"}'], []),
        ("", [], []),
    ):
        played = Played(debate())
        played.ends("proposal", said("Io"))
        played.ends("round 1, critic 1", said(output))
        (critique,) = played.input["critiques"]
        assert (critique["flaws"], critique["alternatives"]) == (flaws, alternatives)


def test_the_input_of_the_proposer_may_be_anything() -> None:
    for value, expected in (
        (None, {"topic": "Which moon?"}),
        ("by Friday", {"topic": "Which moon?", "input": "by Friday"}),
        ({"topic": "another"}, {"topic": "Which moon?"}),
    ):
        assert Played(debate(input=value)).input == expected


ENDS = st.one_of(
    st.builds(
        said,
        st.one_of(
            st.text(),
            st.none(),
            st.fixed_dictionaries({"flaws": st.lists(st.text()), "alternatives": st.text()}),
        ),
        st.floats(0, 1),
    ),
    st.just(FAILED),
)


@given(st.integers(1, 10), st.integers(1, 5), st.booleans(), st.data())
def test_every_debate_comes_to_an_end(
    critics: int, rounds: int, is_anonymous: bool, data: st.DataObject
) -> None:
    """Whatever the participants say, in whatever order: no step is wanted twice, one that is under
    way stays wanted, and cut short at any time there is a result."""
    of = debate(
        *[critic(f"c{n}", weight=data.draw(st.floats(0.1, 1))) for n in range(critics)],
        rounds=rounds,
        is_anonymous=is_anonymous,
    )
    played = Played(of)
    under_way: set[str] = set()
    while isinstance(next_of(of, played.done), tuple):
        names = played.names
        assert under_way <= {*names}
        assert 1 <= len(names) <= 3
        assert not played.done.keys() & {*names}
        msgspec.json.encode(cut_short(of, played.done).output)
        name = data.draw(st.sampled_from(names))
        played.ends(name, data.draw(ENDS))
        under_way = {*names} - {name}
    assert played.result["status"] in ("resolved", "unresolved", "error")
    assert len(played.done) <= 2 + rounds * (critics + 1)
