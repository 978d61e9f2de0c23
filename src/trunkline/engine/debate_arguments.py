"""`Debate`: who debates what, and for how long."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from trunkline.engine.agent_calls import (
    OF_GATEWAY,
    CallLimits,
    CallRefused,
    check_return_to,
    checked_input,
    flag,
    invalid,
    name_of_agent,
    name_of_skill,
    named_arguments,
    timeout_of,
)
from trunkline.engine.plans import fraction, short_text, total_timeout_of, whole_number

MAX_CRITICS: Final = 10
MAX_ROUNDS: Final = 5
# More at once would make a debate as heavy as a batch.
CRITICS_AT_ONCE: Final = 3
MAX_TOPIC_CHARS: Final = 10_000
_MAX_PERSPECTIVE_CHARS: Final = 1000
_ROUNDS: Final = 2
_MIN_CONFIDENCE: Final = 0.85
_ARGUMENTS: Final = frozenset(
    (
        "topic",
        "proposer",
        "critics",
        "resolver",
        "input",
        "rounds",
        "minConfidence",
        "anonymous",
        "timeout",
        "timeoutSeconds",
        "totalTimeout",
        "totalTimeoutSeconds",
        "wait",
    )
)
_OF_PARTICIPANT: Final = frozenset(("agent", "skill"))
_OF_CRITIC: Final = _OF_PARTICIPANT | {"perspective", "weight"}


class Participant(Struct, frozen=True, kw_only=True):
    agent: str
    # Empty for the one that its role has by default.
    skill: str = ""
    # From which point of view a critic criticises.
    perspective: str = ""
    # How much a critic counts.
    weight: float = 1.0


class Debate(Struct, frozen=True, kw_only=True, tag="debate"):
    topic: str
    proposer: Participant
    critics: tuple[Participant, ...]
    resolver: Participant
    # The skill by which the proposer refines; empty for that of its proposal.
    refine_skill: str = ""
    input: Any = None
    rounds: int = _ROUNDS
    # A proposal that is as sure as this is debated no further.
    min_confidence: float = _MIN_CONFIDENCE
    # Whether proposer and resolver do not learn which agent wrote a critique.
    is_anonymous: bool = False
    # Of each call, and of all together.
    timeout_ms: int
    total_ms: int
    # Whether the caller waits for the result.
    waits: bool = True


def read_debate(arguments: Any, limits: CallLimits, *, session_key: str) -> Debate:
    """Raises CallRefused."""
    named = named_arguments(arguments, _ARGUMENTS, unlisted=OF_GATEWAY)
    check_return_to(named, session_key)
    critics = _critics(named.get("critics"))
    rounds = whole_number(named, "rounds", least=1, most=MAX_ROUNDS, usual=_ROUNDS)
    timeout_ms = timeout_of(named, limits)
    if not timeout_ms:
        raise invalid(
            "timeout must be above 0, because the debate waits for each answer", "timeout"
        )
    # A proposal, then critiques and a refined proposal in each round, then the resolution.
    calls = 2 + rounds * (1 - (-len(critics) // CRITICS_AT_ONCE))
    return Debate(
        topic=short_text(named, "topic", least=1, most=MAX_TOPIC_CHARS),
        proposer=_participant(named.get("proposer"), "proposer", _OF_PARTICIPANT),
        critics=critics,
        resolver=_participant(named.get("resolver"), "resolver", _OF_PARTICIPANT),
        input=checked_input(named.get("input"), limits),
        rounds=rounds,
        min_confidence=fraction(named, "minConfidence", usual=_MIN_CONFIDENCE),
        is_anonymous=flag(named, "anonymous"),
        timeout_ms=timeout_ms,
        total_ms=total_timeout_of(named, limits, longest_ms=calls * timeout_ms),
        waits=flag(named, "wait", otherwise=True),
    )


def _critics(given: Any) -> tuple[Participant, ...]:
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_CRITICS:
        raise invalid(f"critics must be a list of 1 to {MAX_CRITICS} critics", "critics")
    critics = tuple(
        [_participant(each, f"critics[{n}]", _OF_CRITIC) for n, each in enumerate(given)]
    )
    if not any(critic.weight for critic in critics):
        raise invalid("critics: one of them needs a weight above 0", "critics")
    return critics


def _participant(given: Any, where: str, known: frozenset[str]) -> Participant:
    """A participant: an object, or the name of its agent alone."""
    try:
        if isinstance(given, str):
            return Participant(agent=name_of_agent(given, "agent"))
        if not isinstance(given, Mapping):
            raise invalid('it must be an object with an agent, such as {"agent": "owner/slug"}')
        named = named_arguments(given, known)
        return Participant(
            agent=name_of_agent(named.get("agent"), "agent"),
            skill=name_of_skill(named.get("skill"), "skill"),
            perspective=short_text(named, "perspective", most=_MAX_PERSPECTIVE_CHARS),
            weight=fraction(named, "weight", usual=1.0),
        )
    except CallRefused as refused:
        raise refused.within(where) from None
