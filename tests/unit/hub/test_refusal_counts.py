"""Refusals: few have rows of their own, and the rest is counted by source, agent and reason."""

from msgspec.structs import replace

from trunkline.hub.audit_rows import Row
from trunkline.hub.refusal_counts import (
    LISTED_PER_SOURCE,
    MAX_GROUPS,
    MAX_SOURCES,
    OTHERS,
    RefusalCounts,
)

NOW_MS = 60_000
ALICE = Row(kind="refusal", at_ms=NOW_MS, who="alice", agent="acme/echo", reason="queue_full")


def test_a_flood_of_one_source_costs_few_rows() -> None:
    counts = RefusalCounts()
    rows = [row for _ in range(10_000) for row in counts.take(ALICE, NOW_MS)]
    assert rows == [ALICE] * LISTED_PER_SOURCE
    (counted,) = counts.due(120_000)
    assert counted == replace(ALICE, count=10_000 - LISTED_PER_SOURCE)
    assert counts.due(120_001) == []


def test_each_source_agent_and_reason_is_counted_apart() -> None:
    counts = RefusalCounts()
    other_reason = replace(ALICE, reason="busy")
    bob = replace(ALICE, who="bob")
    for _ in range(LISTED_PER_SOURCE):
        assert counts.take(ALICE, NOW_MS) == [ALICE]
    # The limit is that of the source, whatever it is refused for.
    assert counts.take(other_reason, NOW_MS) == counts.take(ALICE, NOW_MS) == []
    assert counts.take(bob, NOW_MS) == [bob]
    assert [(row.who, row.reason, row.count) for row in counts.rest()] == [
        ("alice", "busy", 1),
        ("alice", "queue_full", 1),
    ]


def test_a_new_minute_begins_anew_also_when_the_clock_is_set_back() -> None:
    counts = RefusalCounts()
    for at_ms in (60_000, 119_999):
        for _ in range(LISTED_PER_SOURCE):
            counts.take(ALICE, at_ms)
    for at_ms in (120_000, 0):
        assert counts.take(ALICE, at_ms)[-1] == ALICE


def test_messages_that_waited_since_the_last_minute_begin_no_minute_of_their_own() -> None:
    counts = RefusalCounts()
    rows = []
    for number in range(100):
        waited_ms = 30_000 * (number % 2)
        rows += counts.take(replace(ALICE, at_ms=NOW_MS - waited_ms), NOW_MS)
    assert len(rows) == LISTED_PER_SOURCE


def test_a_count_names_a_token_where_there_was_one_alone() -> None:
    counts = RefusalCounts()
    one, two = replace(ALICE, token="tok_1"), replace(ALICE, token="tok_2")
    for row in [one] * (LISTED_PER_SOURCE + 2):
        counts.take(row, NOW_MS)
    assert [row.token for row in counts.rest()] == ["tok_1"]
    for row in (one, two):
        counts.take(row, NOW_MS)
    assert [(row.token, row.count) for row in counts.rest()] == [("", 2)]


def test_many_addresses_cost_no_more_memory_and_few_rows() -> None:
    counts = RefusalCounts()
    rows = []
    for number in range(3 * MAX_SOURCES):
        rows += counts.take(replace(ALICE, who="", source=f"2001:db8::{number:x}"), NOW_MS)
    # Each source of its own has a row, and all further ones share one limit.
    assert len(rows) == MAX_SOURCES + LISTED_PER_SOURCE
    (counted,) = counts.rest()
    assert (counted.who, counted.source) == (OTHERS, "")
    assert len(rows) + counted.count == 3 * MAX_SOURCES


def test_many_reasons_share_a_row_in_the_end() -> None:
    counts = RefusalCounts()
    for _ in range(LISTED_PER_SOURCE):
        counts.take(ALICE, NOW_MS)
    for number in range(2 * MAX_GROUPS):
        assert counts.take(replace(ALICE, agent=f"acme/{number}"), NOW_MS) == []
    rows = counts.rest()
    assert len(rows) == MAX_GROUPS + 1
    assert sum(row.count for row in rows) == 2 * MAX_GROUPS
