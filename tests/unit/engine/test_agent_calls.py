"""R-16, R-17, R-22, R-24, R-27: the arguments of a call, which a model has written."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.agent_calls import (
    CallLimits,
    CallPolicy,
    CallRefused,
    Poll,
    allows,
    read_call,
    read_poll,
    why_too_deep,
)

KEY = "agent:editor:a2a:c1"


def read(**arguments: Any) -> Any:
    return read_call({"agent": "acme/helper", **arguments}, CallLimits(), session_key=KEY)


def refused(**arguments: Any) -> CallRefused:
    with pytest.raises(CallRefused) as caught:
        read(**arguments)
    # It must fit into an answer itself, whatever the arguments were.
    caught.value.text.encode()
    return caught.value


def test_without_a_timeout_it_is_60_seconds() -> None:
    """R-16."""
    assert read().timeout_ms == 60_000
    assert read(timeout=None, timeoutSeconds=None).timeout_ms == 60_000


def test_the_units_of_a_timeout_are_milliseconds_and_seconds() -> None:
    assert read(timeout=1500).timeout_ms == 1500
    assert read(timeoutSeconds=1.5).timeout_ms == 1500
    assert read(timeout=1500, timeoutSeconds=1.5).timeout_ms == 1500
    assert "differ" in refused(timeout=1500, timeoutSeconds=2).text


def test_a_timeout_is_never_above_five_minutes() -> None:
    """R-22."""
    assert read(timeoutSeconds=3600).timeout_ms == 300_000
    assert read(timeout=10**11).timeout_ms == 300_000


def test_a_timeout_of_0_expects_no_answer() -> None:
    """R-17."""
    assert read(timeoutSeconds=0).timeout_ms == 0
    assert read(timeout=0.1).timeout_ms == 1
    assert "wait" in refused(timeout=0, wait=True).text


@pytest.mark.parametrize(
    "timeout", [-1, math.nan, math.inf, "60", True, [60], 10**400, {}], ids=range(8)
)
def test_any_other_timeout_is_refused(timeout: Any) -> None:
    error = refused(timeout=timeout)
    assert (error.code, error.text.split()[0]) == ("validation_failed", "timeout")


def test_agents_and_skills_have_names_of_a_grammar() -> None:
    """R-27."""
    assert read(agent=" Acme/Helper ").agent == "acme/helper"
    assert read(agent="agent:helper:a2a:x y").agent == "helper"
    assert read(skill="Look_up-2").skill == "Look_up-2"
    for odd in (None, "", 7, "a b", "a/b/c", "x" * 65, "é", "a\x00", "\ud800", ["a"]):
        assert refused(agent=odd).text.startswith("agent must")
    for odd in (7, "a b", "x" * 129, "\ud800", ["a"]):
        assert refused(skill=odd).text.startswith("skill must")
        assert refused(mode=odd).text.startswith("mode must")


def test_the_gateway_knows_the_session_and_makes_the_id() -> None:
    """R-02, R-23, R-24."""
    assert read(returnTo=KEY, correlationId="mine") == read()
    for other in ("agent:main:main", "", 7, ["x"], "\ud800"):
        assert refused(returnTo=other).code == "return_to_refused"
        assert KEY not in refused(returnTo=other).text


def test_an_unknown_argument_is_named() -> None:
    assert refused(to="x").text.startswith("to is not an argument; there is: agent, input,")
    assert refused(**{"\ud800" * 100: 1}).text.startswith("\\ud800\\ud800")
    with pytest.raises(CallRefused, match="must be a JSON object"):
        read_call(["agent"], CallLimits(), session_key=KEY)


def test_nothing_but_true_and_false_says_whether_to_wait() -> None:
    assert read(wait=True).waits
    assert not read(wait=None).waits
    assert refused(wait="true").text == "wait must be true or false"


def test_the_input_may_have_a_megabyte_of_json() -> None:
    """R-27."""
    assert len(read(input="x" * (1024 * 1024 - 2)).input) == 1024 * 1024 - 2
    error = refused(input="x" * (1024 * 1024 - 1))
    assert error.code == "input_validation_failed"
    assert error.text.startswith("input has 1048577 bytes as JSON")


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\udfff": 1}, endless(), deep(), object(), {(1, 2): 3}, 10**5000, 1j],
    ids=range(8),
)
def test_an_input_that_is_no_json_is_refused(value: Any) -> None:
    error = refused(input=value)
    assert (error.code, error.text.split()[0]) == ("input_validation_failed", "input")


def test_the_called_agent_gets_a_copy_of_the_input() -> None:
    mine = {"at": datetime(2026, 2, 15, tzinfo=UTC), "list": (1, math.nan)}
    theirs = read(input=mine).input
    assert theirs == {"at": "2026-02-15T00:00:00Z", "list": [1, None]}


def test_a_poll_names_a_task_or_a_call() -> None:
    """R-09."""
    assert read_poll({"taskId": "t-1", "correlationId": None}) == Poll(task_id="t-1", call_id="")
    assert read_poll({"correlationId": "c-1"}) == Poll(task_id="", call_id="c-1")
    incomplete: list[Any] = [{}, {"taskId": ""}, {"taskId": "t-1", "agent": "x"}, [], "t-1", None]
    for arguments in incomplete:
        with pytest.raises(CallRefused):
            read_poll(arguments)
    for name in ("taskId", "correlationId"):
        for value in ("a b", "x\x00", "\ud800", "x" * 257, 7, ["x"], {"x": 1}):
            with pytest.raises(CallRefused, match=f"{name} must be an id"):
                read_poll({name: value})


_json: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=5,
)
_names = st.sampled_from(
    ("agent", "skill", "input", "mode", "timeout", "timeoutSeconds", "wait", "taskId", "returnTo")
)


@given(st.dictionaries(_names | st.text(st.characters()), _json))
def test_arguments_are_read_or_refused_with_a_text(arguments: dict[str, Any]) -> None:
    for reads in (
        lambda: read_call({"agent": "a", **arguments}, CallLimits(), session_key=KEY),
        lambda: read_poll(arguments),
    ):
        try:
            reads()
        except CallRefused as error:
            error.text.encode()


def test_patterns_say_which_agents_and_skills_may_be_called() -> None:
    """R-27."""
    policy = CallPolicy(may_call=("acme/*", "labs/judge#critique"))
    assert allows(policy, "acme/helper", "anything")
    assert allows(policy, "labs/judge", "critique")
    assert not allows(policy, "labs/judge", "")
    assert not allows(policy, "labs/other", "critique")
    assert not allows(CallPolicy(may_call=()), "acme/helper", "")


def test_calls_go_through_five_agents_and_five_calls() -> None:
    """Trap 7."""
    limits = CallLimits()
    assert why_too_deep(limits, hops=5, depth=5) is None
    too_far = [why_too_deep(limits, hops=6, depth=1), why_too_deep(limits, hops=1, depth=6)]
    assert [each.code for each in too_far if each is not None] == ["too_many_hops", "too_deep"]
