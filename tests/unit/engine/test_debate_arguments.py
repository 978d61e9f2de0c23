"""What a debate is asked to be."""

from typing import Any

import pytest

from trunkline.engine.agent_calls import CallLimits, CallRefused
from trunkline.engine.debate_arguments import Debate, Participant, read_debate

KEY = "agent:caller:a2a:c1"
ASKED: dict[str, Any] = {
    "topic": "Which moon?",
    "proposer": {"agent": "acme/poet"},
    "critics": [{"agent": "acme/sceptic"}],
    "resolver": {"agent": "acme/judge"},
}


def read(**arguments: Any) -> Debate:
    return read_debate({**ASKED, **arguments}, CallLimits(), session_key=KEY)


def test_the_defaults() -> None:
    assert read() == Debate(
        topic="Which moon?",
        proposer=Participant(agent="acme/poet"),
        critics=(Participant(agent="acme/sceptic"),),
        resolver=Participant(agent="acme/judge"),
        rounds=2,
        min_confidence=0.85,
        timeout_ms=60_000,
        # A proposal, a critique and a refinement in each of two rounds, a resolution.
        total_ms=6 * 60_000 + 5000,
        waits=True,
    )


def test_all_arguments() -> None:
    debate = read(
        proposer="agent:poet:main",
        critics=["sceptic", {"agent": "b", "skill": "s", "perspective": "cost", "weight": 0}],
        resolver={"agent": "JUDGE", "skill": "rule"},
        input={"a": [1]},
        rounds=5,
        minConfidence=0,
        anonymous=True,
        timeoutSeconds=2,
        totalTimeout=9000,
        wait=False,
        returnTo=KEY,
        correlationId="ignored",
    )
    assert debate == Debate(
        topic="Which moon?",
        proposer=Participant(agent="poet"),
        critics=(
            Participant(agent="sceptic"),
            Participant(agent="b", skill="s", perspective="cost", weight=0.0),
        ),
        resolver=Participant(agent="judge", skill="rule"),
        input={"a": [1]},
        rounds=5,
        min_confidence=0.0,
        is_anonymous=True,
        timeout_ms=2000,
        total_ms=9000,
        waits=False,
    )


def test_a_text_has_no_halves_of_characters() -> None:
    assert read(topic="Io \ud800").topic == "Io \ufffd"


def test_the_total_timeout_is_as_long_as_the_calls_need() -> None:
    ten = [{"agent": "acme/sceptic"}] * 10
    # Ten critics are asked in four groups.
    assert read(critics=ten, rounds=1, timeout=1000).total_ms == (2 + 4 + 1) * 1000 + 5000
    assert read(critics=ten, rounds=5).total_ms == 1_620_000 + 5000
    assert read(critics=ten, rounds=5, timeoutSeconds=300).total_ms == 1_800_000


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"topic": None}, "topic must be a text of 1 to 10000 characters"),
        ({"topic": "  "}, "topic must be a text of 1 to 10000 characters"),
        ({"topic": "x" * 10_001}, "topic must be a text of 1 to 10000 characters"),
        ({"topic": 7}, "topic must be a text of 1 to 10000 characters"),
        ({"proposer": None}, "proposer: it must be an object with an agent, such as "),
        ({"proposer": {}}, "proposer: agent must name an agent"),
        ({"proposer": "not an agent"}, "proposer: agent must name an agent"),
        ({"proposer": {"agent": "a", "weight": 1}}, "proposer: weight is not an argument"),
        ({"resolver": {"agent": "a", "skill": "no skill"}}, "resolver: skill must be letters"),
        ({"critics": None}, "critics must be a list of 1 to 10 critics"),
        ({"critics": []}, "critics must be a list of 1 to 10 critics"),
        ({"critics": "acme/a"}, "critics must be a list of 1 to 10 critics"),
        ({"critics": ["a"] * 11}, "critics must be a list of 1 to 10 critics"),
        ({"critics": ["a", 1]}, "critics[1]: it must be an object with an agent"),
        ({"critics": [{"agent": "a", "weight": 2}]}, "critics[0]: weight must be a number from 0"),
        ({"critics": [{"agent": "a", "weight": float("nan")}]}, "critics[0]: weight must be"),
        ({"critics": [{"agent": "a", "weight": 0}]}, "critics: one of them needs a weight above 0"),
        ({"critics": [{"agent": "a", "perspective": 1}]}, "critics[0]: perspective must be a text"),
        ({"critics": [{"agent": "a", "name": "x"}]}, "critics[0]: name is not an argument"),
        ({"rounds": 0}, "rounds must be a whole number from 1 to 5"),
        ({"rounds": 6}, "rounds must be a whole number from 1 to 5"),
        ({"rounds": True}, "rounds must be a whole number from 1 to 5"),
        ({"minConfidence": 1.1}, "minConfidence must be a number from 0 to 1"),
        ({"minConfidence": "high"}, "minConfidence must be a number from 0 to 1"),
        ({"anonymous": "yes"}, "anonymous must be true or false"),
        ({"input": object()}, "input is not JSON"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"timeout": 1000, "timeoutSeconds": 2}, "timeout and timeoutSeconds differ"),
        ({"totalTimeoutSeconds": 0}, "totalTimeout must be above 0"),
        ({"wait": "no"}, "wait must be true or false"),
        ({"returnTo": "agent:other:a2a:c"}, "returnTo is not the session of this turn"),
        ({"moderator": "a"}, "moderator is not an argument; there is: anonymous, critics, "),
    ],
)
def test_bad_input_is_refused_with_the_name_of_the_field(
    arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(CallRefused) as refused:
        read(**arguments)
    assert refused.value.text.startswith(text)
    # Such as `calls[1].agent`.
    assert refused.value.argument.split(".")[-1] in refused.value.text
