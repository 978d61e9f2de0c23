"""`next_of`: the rules of a debate.

One agent proposes, critics find its flaws, the proposer refines, and a resolver concludes. Each
function here sees the debate and the calls that have ended, and nothing else.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from trunkline.engine.agent_calls import AgentCall
from trunkline.engine.debate_arguments import CRITICS_AT_ONCE, Debate, Participant
from trunkline.engine.plans import Done, Finished, Next, Step, StepEnd
from trunkline.engine.structured_answer import texts_of

# A proposal as sure as this needs no critics.
SURE: Final = 0.95
EXECUTE: Final = "execute"
CRITIQUE: Final = "critique"
REFINE: Final = "refine"

_PROPOSAL: Final = "proposal"
_RESOLUTION: Final = "resolution"


class Critique(Struct, frozen=True, kw_only=True):
    """What one critic found, or why it found nothing."""

    critic: Participant
    number: int
    confidence: float = 0.0
    flaws: tuple[str, ...] = ()
    alternatives: tuple[Any, ...] = ()
    has_failed: bool = False

    def shown(self, *, is_anonymous: bool = False) -> dict[str, Any]:
        named: dict[str, Any] = {"critic": f"critic {self.number}"}
        if not is_anonymous:
            named["agent"] = self.critic.agent
        if self.critic.perspective:
            named["perspective"] = self.critic.perspective
        return named | {
            "weight": self.critic.weight,
            "confidence": self.confidence,
            "flaws": [*self.flaws],
            "alternatives": [*self.alternatives],
        }


class Round(Struct, frozen=True, kw_only=True):
    """A round that has its critiques."""

    number: int
    # What was criticised.
    proposal: StepEnd
    critiques: tuple[Critique, ...]
    refined: StepEnd | None = None

    @property
    def answered(self) -> tuple[Critique, ...]:
        return tuple([each for each in self.critiques if not each.has_failed])

    @property
    def is_heard(self) -> bool:
        """Whether critics with half of the weight have answered. A round without them does not end
        the debate, however sure the proposer is."""
        heard = sum(each.critic.weight for each in self.answered)
        return bool(self.answered) and 2 * heard >= sum(x.critic.weight for x in self.critiques)

    @property
    def critic_confidence(self) -> float:
        """How sound the critics find the proposal, by their weights. A failed one found nothing
        sound."""
        weight = sum(each.critic.weight for each in self.critiques)
        sure = sum(each.critic.weight * each.confidence for each in self.critiques)
        return round(sure / weight, 4)

    def shown(self, *, is_anonymous: bool = False) -> dict[str, Any]:
        shown = {
            "round": self.number,
            "proposal": self.proposal.output,
            "confidence": self.proposal.confidence,
            "critiques": [each.shown(is_anonymous=is_anonymous) for each in self.critiques],
            "criticConfidence": self.critic_confidence,
        }
        if self.refined is not None and self.refined.is_completed:
            shown["refined"] = self.refined.output
            shown["refinedConfidence"] = self.refined.confidence
        return shown


class _Course(Struct, kw_only=True):
    """How the debate has gone so far."""

    proposals: list[StepEnd] = []
    rounds: list[Round] = []
    resolution: StepEnd | None = None

    @property
    def proposal(self) -> StepEnd:
        """The last one."""
        return self.proposals[-1]


def next_of(debate: Debate, done: Done) -> Next:
    return _follow(debate, done)[1]


def cut_short(debate: Debate, done: Done) -> Finished:
    """The result of a debate whose total timeout is over."""
    text = f"The debate did not end within {debate.total_ms / 1000:g} s"
    return _error(debate, _follow(debate, done)[0], "total_timeout", text)


def _follow(debate: Debate, done: Done) -> tuple[_Course, Next]:
    """How the debate has gone so far, and what it wants next."""
    course = _Course()
    first = done.get(_PROPOSAL)
    if first is None:
        return course, (_propose(debate),)
    if not first.is_completed:
        return course, _failed(debate, course, "proposer_failed", "The proposer failed", first)
    course.proposals.append(first)
    if first.confidence < SURE:
        for number in range(1, debate.rounds + 1):
            wanted = _round(debate, course, done, number)
            if wanted is not None:
                return course, wanted
            if _is_settled(debate, course):
                break
    resolution = done.get(_RESOLUTION)
    if resolution is None:
        return course, (_resolve(debate, course),)
    if not resolution.is_completed:
        return course, _failed(debate, course, "resolver_failed", "The resolver failed", resolution)
    return course, _result(debate, course, resolution)


def _round(debate: Debate, course: _Course, done: Done, number: int) -> Next | None:
    """What the round still needs; None once it has all."""
    names = [_critique_name(number, each) for each in range(1, len(debate.critics) + 1)]
    asked = [*zip(names, debate.critics, strict=True)]
    missing = [(name, critic) for name, critic in asked if name not in done]
    if missing:
        return tuple(
            [
                _criticise(debate, course, number, name, critic)
                for name, critic in missing[:CRITICS_AT_ONCE]
            ]
        )
    critiques = [_critique(critic, n, done[name]) for n, (name, critic) in enumerate(asked, 1)]
    held = Round(number=number, proposal=course.proposal, critiques=tuple(critiques))
    course.rounds.append(held)
    if not held.answered:
        return _error(debate, course, "critics_failed", f"All critics failed in round {number}")
    if _is_settled(debate, course):
        return None
    refined = done.get(_refine_name(number))
    if refined is None:
        return (_refine(debate, course, number),)
    if not refined.is_completed:
        return _failed(debate, course, "refine_failed", "The proposer failed to refine", refined)
    course.rounds[-1] = Round(
        number=number, proposal=held.proposal, critiques=held.critiques, refined=refined
    )
    course.proposals.append(refined)
    return None


def _is_settled(debate: Debate, course: _Course) -> bool:
    """Whether the proposal needs no further round."""
    return course.rounds[-1].is_heard and course.proposal.confidence >= debate.min_confidence


def _propose(debate: Debate) -> Step:
    given = debate.input
    if given is None:
        value: dict[str, Any] = {}
    else:
        value = dict(given) if isinstance(given, dict) else {"input": given}
    return _step(debate, _PROPOSAL, debate.proposer, EXECUTE, value | {"topic": debate.topic})


def _criticise(
    debate: Debate, course: _Course, number: int, name: str, critic: Participant
) -> Step:
    value = {
        "topic": debate.topic,
        "proposal": course.proposal.output,
        "perspective": critic.perspective,
        "round": number,
    }
    return _step(debate, name, critic, CRITIQUE, value)


def _refine(debate: Debate, course: _Course, number: int) -> Step:
    held = course.rounds[-1]
    value = {
        "topic": debate.topic,
        "originalProposal": course.proposal.output,
        "critiques": [each.shown(is_anonymous=debate.is_anonymous) for each in held.critiques],
        "addressedConcerns": _flaws(course.rounds[:-1]),
        "round": number,
    }
    skill = debate.refine_skill or debate.proposer.skill
    by = Participant(agent=debate.proposer.agent, skill=skill)
    return _step(debate, _refine_name(number), by, EXECUTE, value)


def _resolve(debate: Debate, course: _Course) -> Step:
    value: dict[str, Any] = {"topic": debate.topic, "finalProposal": course.proposal.output}
    if course.rounds:
        value["debateHistory"] = [
            each.shown(is_anonymous=debate.is_anonymous) for each in course.rounds
        ]
        value["assumptions"] = _assumptions(course.proposals)
    else:
        value["rounds"] = []
    return _step(debate, _RESOLUTION, debate.resolver, EXECUTE, value)


def _step(debate: Debate, name: str, by: Participant, mode: str, value: dict[str, Any]) -> Step:
    call = AgentCall(
        agent=by.agent,
        skill=by.skill,
        mode=mode,
        input=value,
        timeout_ms=debate.timeout_ms,
        waits=True,
    )
    # To think twice does no harm.
    return Step(name=name, call=call, is_repeatable=True)


def _critique(critic: Participant, number: int, end: StepEnd) -> Critique:
    if not end.is_completed:
        flaw = f"Critic failed: {end.outcome.text or end.outcome.code}"
        return Critique(critic=critic, number=number, flaws=(flaw,), has_failed=True)
    output = end.output
    if isinstance(output, dict) and ("flaws" in output or "alternatives" in output):
        flaws, alternatives = texts_of(output.get("flaws")), output.get("alternatives")
    else:
        # A critic that knows no form: what it says is what it found.
        flaws, alternatives = texts_of(output if isinstance(output, str) else [output]), None
    if not isinstance(alternatives, list):
        alternatives = [] if alternatives in (None, "") else [alternatives]
    return Critique(
        critic=critic,
        number=number,
        confidence=end.confidence,
        flaws=flaws,
        alternatives=tuple(alternatives),
    )


def _result(debate: Debate, course: _Course, resolution: StepEnd) -> Finished:
    confidence = resolution.confidence
    # A proposal that was sure from the beginning was resolved without a debate.
    is_resolved = not course.rounds or confidence >= debate.min_confidence
    output: dict[str, Any] = {
        "status": "resolved" if is_resolved else "unresolved",
        "topic": debate.topic,
        "conclusion": resolution.output,
        "confidence": confidence,
        "confidenceHistory": [each.confidence for each in (*course.proposals, resolution)],
        "rounds": [each.shown() for each in course.rounds],
    }
    if course.rounds:
        dissent = [
            each.shown()
            for each in course.rounds[-1].answered
            if each.flaws and each.confidence < debate.min_confidence
        ]
        if dissent:
            output["dissent"] = dissent
    assumptions = _assumptions((*course.proposals, resolution))
    output["assumptions"] = assumptions
    return Finished(output=output, confidence=confidence, assumptions=tuple(assumptions))


def _failed(debate: Debate, course: _Course, code: str, what: str, end: StepEnd) -> Finished:
    return _error(debate, course, code, f"{what}: {end.outcome.text or end.outcome.code}")


def _error(debate: Debate, course: _Course, code: str, text: str) -> Finished:
    confidence = course.proposal.confidence if course.proposals else 0.0
    assumptions = _assumptions(course.proposals)
    output = {
        "status": "error",
        "topic": debate.topic,
        "error": {"code": code, "message": text},
        "confidence": confidence,
        "confidenceHistory": [each.confidence for each in course.proposals],
        "rounds": [each.shown() for each in course.rounds],
        "assumptions": assumptions,
    }
    return Finished(output=output, confidence=confidence, assumptions=tuple(assumptions))


def _assumptions(ends: Sequence[StepEnd]) -> list[str]:
    """All of them, each once."""
    return [*dict.fromkeys(text for end in ends for text in end.assumptions)]


def _flaws(rounds: Sequence[Round]) -> list[str]:
    found = [flaw for held in rounds for each in held.answered for flaw in each.flaws]
    return [*dict.fromkeys(found)]


def _critique_name(number: int, critic: int) -> str:
    return f"round {number}, critic {critic}"


def _refine_name(number: int) -> str:
    return f"round {number}, refinement"
