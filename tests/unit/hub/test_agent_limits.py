"""`AgentLimits` and its form in the API."""

from typing import Any

import msgspec
import pytest

from trunkline.hub.agent_limits import AgentLimits, LimitsBody
from trunkline.model.errors import InvalidParams


def changed(**members: Any) -> AgentLimits:
    body = msgspec.json.decode(msgspec.json.encode(members), type=LimitsBody)
    return body.applied_to(AgentLimits())


def test_the_defaults_are_those_of_the_seed() -> None:
    limits = AgentLimits()
    assert (limits.daily_budget_queries, limits.concurrency_cap) == (1000, 5)
    assert limits.daily_budget_per_caller is None


def test_a_change_keeps_what_it_does_not_name() -> None:
    limits = changed(dailyBudgetQueries=0, ratePerCaller=7)
    assert limits == AgentLimits(daily_budget_queries=0, rate_per_caller=7)
    again = LimitsBody(rate_per_caller=None).applied_to(limits)
    assert again == AgentLimits(daily_budget_queries=0)


def test_limits_survive_the_api() -> None:
    limits = AgentLimits(daily_budget_cost=5, busy="wait", wait_s=2.5, claim=True)
    body = msgspec.json.encode(LimitsBody.of(limits))
    assert b'"dailyBudgetCost":5' in body
    assert msgspec.json.decode(body, type=LimitsBody).applied_to(AgentLimits()) == limits


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("dailyBudgetQueries", -1),
        ("dailyBudgetQueries", 100_001),
        ("dailyBudgetPerCaller", -1),
        ("concurrencyCap", 0),
        ("concurrencyCap", 21),
        ("ratePerCaller", 0),
        ("rateWindowS", 0),
        ("waitS", -0.5),
        ("costEstimate", -1),
        ("dailyBudgetCost", -1),
    ],
)
def test_a_value_out_of_bounds_names_its_member(member: str, value: float) -> None:
    with pytest.raises(InvalidParams, match=member):
        changed(**{member: value})


def test_the_limits_that_the_runtime_enforces_are_keys_of_the_profile() -> None:
    assert AgentLimits().profile_keys() == {"max_concurrency": 5}
    limits = AgentLimits(concurrency_cap=2, busy="wait", wait_s=3.0, claim=True)
    assert limits.profile_keys() == {
        "max_concurrency": 2,
        "busy": "wait",
        "busy_wait_s": 3.0,
        "driver_claim": True,
    }
