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

ALICE = Row(kind="refusal", at_ms=60_000, who="alice", agent="acme/echo", reason="queue_full")


def test_a_flood_of_one_source_costs_few_rows() -> None:
    counts = RefusalCounts()
    rows = [row for _ in range(10_000) for row in counts.take(ALICE)]
    assert rows == [ALICE] * LISTED_PER_SOURCE
    (counted,) = counts.due(120_000)
    assert counted == replace(ALICE, count=10_000 - LISTED_PER_SOURCE)
    assert counts.due(120_001) == []


def test_each_source_agent_and_reason_is_counted_apart() -> None:
    counts = RefusalCounts()
    other_reason = replace(ALICE, reason="busy")
    bob = replace(ALICE, who="bob")
    for _ in range(LISTED_PER_SOURCE):
        assert counts.take(ALICE) == [ALICE]
    # The limit is that of the source, whatever it is refused for.
    assert counts.take(other_reason) == counts.take(ALICE) == []
    assert counts.take(bob) == [bob]
    assert [(row.who, row.reason, row.count) for row in counts.rest()] == [
        ("alice", "busy", 1),
        ("alice", "queue_full", 1),
    ]


def test_a_new_minute_begins_anew_also_when_the_clock_is_set_back() -> None:
    counts = RefusalCounts()
    for at_ms in (60_000, 119_999):
        for _ in range(LISTED_PER_SOURCE):
            counts.take(replace(ALICE, at_ms=at_ms))
    for at_ms in (120_000, 0):
        row = replace(ALICE, at_ms=at_ms)
        assert counts.take(row)[-1] == row


def test_many_addresses_cost_no_more_memory_and_few_rows() -> None:
    counts = RefusalCounts()
    rows = []
    for number in range(3 * MAX_SOURCES):
        rows += counts.take(replace(ALICE, who="", source=f"2001:db8::{number:x}"))
    # Each source of its own has a row, and all further ones share one limit.
    assert len(rows) == MAX_SOURCES + LISTED_PER_SOURCE
    (counted,) = counts.rest()
    assert (counted.who, counted.source) == (OTHERS, "")
    assert len(rows) + counted.count == 3 * MAX_SOURCES


def test_many_reasons_share_a_row_in_the_end() -> None:
    counts = RefusalCounts()
    for _ in range(LISTED_PER_SOURCE):
        counts.take(ALICE)
    for number in range(2 * MAX_GROUPS):
        assert counts.take(replace(ALICE, agent=f"acme/{number}")) == []
    rows = counts.rest()
    assert len(rows) == MAX_GROUPS + 1
    assert sum(row.count for row in rows) == 2 * MAX_GROUPS
