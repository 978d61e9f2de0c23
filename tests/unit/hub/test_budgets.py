"""Which counts a message raises, and what callers are told when one has no room."""

from typing import Any

import pytest

from trunkline.hub import budgets
from trunkline.hub.agent_limits import AgentLimits
from trunkline.hub.budgets import UNLIMITED, Asker
from trunkline.ports.records import Key


def test_a_day_is_one_of_utc() -> None:
    midnight = 1_763_510_400_000
    assert budgets.day_of(midnight) == "2025-11-19"
    assert budgets.day_of(midnight - 1) == "2025-11-18"
    assert budgets.seconds_of_day_left(midnight) == 86_400
    assert budgets.seconds_of_day_left(midnight - 1) == 1
    assert budgets.seconds_of_day_left(midnight + 1) == 86_400


def test_an_agent_without_limits_is_counted_as_well() -> None:
    (agent,) = budgets.counts_of_agent("a/b", None, "2025-11-18")
    assert (agent.key, agent.at_most) == (Key("budget.1", "2025-11-18", "a/b"), UNLIMITED)
    assert budgets.counts_of_asker("a/b", None, "2025-11-18", Asker("c")) == ()


def test_cost_is_reserved_by_its_estimate() -> None:
    limits = AgentLimits(daily_budget_cost=100, cost_estimate=7)
    *_, cost = budgets.counts_of_agent("a/b", limits, "2025-11-18")
    assert (cost.of, cost.amount, cost.at_most) == ("cost", 7, 100)
    assert (cost.add.amount, cost.give_back.amount) == (7, -7)


def test_callers_and_credentials_have_counts_of_their_own() -> None:
    limits = AgentLimits(daily_budget_per_caller=3, daily_budget_per_token=2)
    found = budgets.counts_of_asker("a/b", limits, "2025-11-18", Asker("user:c", "tl_1"))
    assert [(each.key.id, each.at_most) for each in found] == [
        ("a/b caller user:c", 3),
        ("a/b token tl_1", 2),
    ]
    (_, token) = budgets.counts_of_asker("a/b", limits, "2025-11-18", Asker("user:c"))
    assert token.key.id == "a/b token user:c"


def test_names_of_any_length_are_told_apart() -> None:
    long = [f"jwt:issuer:{'x' * 3000}{number}" for number in range(2)]
    assert len({budgets.short(each) for each in long}) == 2
    assert all(len(budgets.short(each)) < 200 for each in long)


def test_windows_follow_each_other_without_a_gap() -> None:
    assert [budgets.window_end_s(at, 60) for at in (0, 59_999, 60_000)] == [60, 60, 120]
    one, other = (budgets.rate_count("a/b", 5, 60, at, "c") for at in (59_999, 60_000))
    assert one.key.scope < other.key.scope


@pytest.mark.parametrize(
    ("of", "reason", "words", "limit"),
    [
        ("agent", "budget_exhausted", "agent @a/b is used up (5)", 5),
        ("caller", "budget_exhausted", "Your daily budget", None),
        ("token", "budget_exhausted", "this credential", None),
        ("cost", "budget_exhausted", "5 units", None),
        ("rate", "rate_limited", "5 queries", None),
    ],
)
def test_a_refusal_says_which_limit_and_when_it_ends(
    of: Any, reason: str, words: str, limit: int | None
) -> None:
    midnight = 1_763_510_400_000
    refusal = budgets.why_exceeded(of, "a/b", 5, midnight - 1500, ends_ms=midnight)
    assert (refusal.reason, refusal.retry_after_s, refusal.limit) == (reason, 2, limit)
    assert words in refusal.text


@pytest.mark.parametrize(
    ("usage", "unit", "cost"),
    [
        ({"totalTokens": 12, "inputTokens": 1}, "tokens", 12),
        ({"inputTokens": 3, "outputTokens": 4}, "tokens", 7),
        ({"costUsd": 0.0000011}, "micro_usd", 2),
        ({"costUsd": 0.5}, "tokens", None),
        ({"totalTokens": 12}, "micro_usd", None),
        ({"totalTokens": -1}, "tokens", None),
        ({"totalTokens": True}, "tokens", None),
        ({"totalTokens": "12"}, "tokens", None),
        ({"totalTokens": float("inf")}, "tokens", None),
        ({"totalTokens": float("nan")}, "tokens", None),
        ("many", "tokens", None),
    ],
)
def test_the_cost_of_a_turn_is_what_its_backend_reports(
    usage: Any, unit: Any, cost: int | None
) -> None:
    assert budgets.cost_of({"usage": usage}, unit) == cost
