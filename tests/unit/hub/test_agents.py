"""The rows of the registry: their records, their rules, and who may know an agent."""

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from trunkline.config.secret import Secret
from trunkline.hub.agent_limits import AgentLimits, LimitsBody
from trunkline.hub.agent_tables import (
    Tables,
    check_tables,
    masked,
    published_table,
    sealed,
    tables_of,
)
from trunkline.hub.agents import (
    AgentRow,
    AgentValues,
    Skill,
    Status,
    Visibility,
    changed_row,
    check_handle,
    fits,
    is_listed,
    is_same_agent,
    isolation_note,
    may_know,
    put,
    restricts,
    row_of,
)
from trunkline.model.errors import InvalidParams
from trunkline.model.principal import OPERATOR, Grant, Principal
from trunkline.ports.records import Key, Record

ROW = AgentRow(
    id="agt_1",
    owner="MRIIOT",
    slug="rust-expert",
    name="rust expert",
    status="published",
    tables=sealed(Tables({"kind": "echo"})),
    shown_backend={"kind": "echo"},
    kind="echo",
    created_ms=1,
    updated_ms=2,
    updated_by="user:MRIIOT",
)
OWNER = Principal(id="user:MRIIOT", roles=("owner:MRIIOT",))
OTHER_OWNER = Principal(id="user:mriiot", roles=("owner:mriiot",), reaches_open=True)
GRANTED = Principal(id="user:dave", grants=(Grant("MRIIOT/rust-expert"),))
SIGNED_IN = Principal(id="user:carol", reaches_open=True)
OPERATORS = Principal(id="user:op", roles=(OPERATOR,))


def test_a_row_and_its_record_are_the_same() -> None:
    row = replace(
        ROW,
        tagline="t",
        skills=(Skill(id="ask", input_modes=("text/plain",)),),
        limits=AgentLimits(daily_budget_queries=7),
        isolated=False,
        tables=sealed(Tables({"kind": "a2a", "token": "s"}, {"retention_s": 1.0})),
    )
    change = put(row, expected=3)
    assert change.key == Key("agent.1", "mriiot", "rust-expert")
    assert change.expected == 3
    found = row_of(Record(key=change.key, version=4, body=change.body))
    assert found == replace(row, version=4)
    assert tables_of(found) == Tables({"kind": "a2a", "token": "s"}, {"retention_s": 1.0})


def test_the_format_of_a_record_stays() -> None:
    body = (
        b'{"id":"agt_1","owner":"acme","slug":"x","name":"X","status":"draft",'
        b'"tagline":"t","visibility":"unlisted","skills":[{"id":"ask","inputModes":["a/b"]}],'
        b'"limits":{"daily_budget_queries":7},"isolated":false,"profile":"hub",'
        b'"tables":"{\\"backend\\":{\\"kind\\":\\"echo\\"},\\"settings\\":{}}",'
        b'"shown_backend":{"kind":"echo"},"kind":"echo","created_ms":1,"updated_ms":2,'
        b'"updated_by":"user:a","of_a_later_release":1}'
    )
    row = row_of(Record(key=Key("agent.1", "acme", "x"), version=1, body=body))
    assert (row.handle, row.limits.daily_budget_queries, row.isolated) == ("acme/x", 7, False)
    assert tables_of(row).backend == {"kind": "echo"}


def test_no_text_of_a_row_shows_what_its_tables_hold() -> None:
    row = replace(ROW, tables=sealed(Tables({"kind": "a2a", "token": "geheim"})))
    assert "geheim" not in repr(row) + str(row)


@pytest.mark.parametrize(
    ("owner", "slug"),
    [("acme", "x"), ("MRIIOT", "rust-expert"), ("0", "0"), ("a-", "b-"), ("a" * 64, "b" * 64)],
)
def test_these_are_handles(owner: str, slug: str) -> None:
    check_handle(owner, slug)


@pytest.mark.parametrize(
    ("owner", "slug", "field"),
    [
        ("", "x", "owner"),
        ("-a", "x", "owner"),
        ("a_b", "x", "owner"),
        ("a.b", "x", "owner"),
        ("a/b", "x", "owner"),
        ("ä", "x", "owner"),
        ("a" * 65, "x", "owner"),
        ("a", "", "slug"),
        ("a", "X", "slug"),
        ("a", "*", "slug"),
        ("a", "..", "slug"),
        ("a", "x\n", "slug"),
        ("a", "x\x00", "slug"),
        ("a", "x y", "slug"),
        ("a", "agent-card.json", "slug"),
        ("a", "x%2f", "slug"),
    ],
)
def test_these_are_no_handles(owner: str, slug: str, field: str) -> None:
    with pytest.raises(InvalidParams, match=f"^{field}: must be"):
        check_handle(owner, slug)


@pytest.mark.parametrize(
    ("status", "visibility", "who", "known", "listed"),
    [
        ("published", "public", None, True, True),
        ("published", "unlisted", None, True, False),
        ("published", "private", None, False, False),
        ("draft", "public", None, False, False),
        ("deleted", "public", None, False, False),
        ("published", "unlisted", SIGNED_IN, True, False),
        ("published", "private", SIGNED_IN, False, False),
        ("published", "private", GRANTED, True, True),
        ("published", "unlisted", GRANTED, True, True),
        ("draft", "public", GRANTED, False, False),
        ("draft", "private", OWNER, True, True),
        ("deleted", "private", OWNER, True, True),
        ("draft", "public", OTHER_OWNER, False, False),
        ("published", "private", OTHER_OWNER, False, False),
        ("draft", "private", OPERATORS, True, True),
    ],
)
def test_who_may_know_an_agent_and_who_finds_it_in_lists(
    status: Status, visibility: Visibility, who: Principal | None, known: bool, listed: bool
) -> None:
    row = replace(ROW, status=status, visibility=visibility)
    assert may_know(row, who) is known
    assert (may_know(row, who) and is_listed(row, who)) is listed


def test_the_table_for_the_directory() -> None:
    row = replace(
        ROW,
        tagline="Knows lifetimes",
        profile="hub",
        skills=(Skill(id="ask", tags=("rust",), input_modes=("text/plain",)),),
        limits=AgentLimits(concurrency_cap=2),
        tables=sealed(Tables({"kind": "echo"}, {"retention_s": 60.0, "max_concurrency": 99})),
    )
    assert published_table(row) == {
        "name": "rust expert",
        "description": "Knows lifetimes",
        "profile": "hub",
        "backend": {"kind": "echo"},
        "retention_s": 60.0,
        # The limit of the registry wins.
        "max_concurrency": 2,
        "skills": [{"id": "ask", "tags": ["rust"], "input_modes": ["text/plain"]}],
    }
    assert "skills" not in published_table(ROW)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"name": "other"}, False),
        ({"description": "other"}, False),
        ({"tagline": "other"}, False),
        ({"profile": "hub"}, False),
        ({"limits": AgentLimits(concurrency_cap=1)}, False),
        ({"tables": Secret('{"backend":{"kind":"scripted"}}')}, False),
        ({"owner": "mriiot"}, False),
        ({"visibility": "private"}, True),
        ({"isolated": False}, True),
        ({"limits": AgentLimits(daily_budget_queries=1)}, True),
        ({"version": 9, "updated_ms": 9, "updated_by": "x"}, True),
    ],
)
def test_what_needs_another_publication(change: dict[str, Any], is_same: bool) -> None:
    assert is_same_agent(ROW, replace(ROW, **change)) is is_same


def test_changes_of_what_is_published_must_hold_everywhere() -> None:
    draft = replace(ROW, status="draft")
    assert restricts(ROW, draft)
    assert restricts(ROW, replace(ROW, visibility="private"))
    assert not restricts(draft, ROW)
    assert not restricts(None, ROW)


def test_values_that_are_absent_stay() -> None:
    row = replace(ROW, tagline="t", limits=AgentLimits(concurrency_cap=2, rate_per_caller=3))
    assert changed_row(row, AgentValues()) == row
    changed = changed_row(
        row,
        AgentValues(
            tagline="",
            daily_budget_queries=9,
            limits=LimitsBody(rate_per_caller=None, busy=UNSET),
        ),
    )
    assert (changed.tagline, changed.name) == ("", "rust expert")
    assert changed.limits == AgentLimits(concurrency_cap=2, daily_budget_queries=9)


def test_every_wrong_value_is_named() -> None:
    values = AgentValues(name=" ", tagline="a\nb", description="ü" * 2049)
    with pytest.raises(InvalidParams) as caught:
        changed_row(ROW, values)
    assert [each.field for each in caught.value.violations] == ["name", "tagline", "description"]


@pytest.mark.parametrize(
    ("tables", "by", "says"),
    [
        (Tables({"kind": "echo"}), OWNER, ""),
        (Tables({"kind": "command"}), OWNER, "backend.kind"),
        (Tables({"kind": "command"}), OPERATORS, ""),
        (Tables({}), OWNER, "backend.kind"),
        (Tables({"kind": ["echo"]}), OWNER, "backend.kind"),
        (Tables({"kind": "echo"}, {"store": {}}), OWNER, "settings.store"),
        (Tables({"kind": "echo"}, {"store": {}}), OPERATORS, ""),
        (Tables({"kind": "echo"}, {"busy": "fail"}), OWNER, ""),
        (Tables({"kind": "echo"}, {"default": True}), OPERATORS, "settings.default"),
        (Tables({"kind": "echo"}, {"backend": {}}), OPERATORS, "settings.backend"),
        (Tables({"kind": "echo", "a": [{"b": "***"}]}), OPERATORS, r"backend.a\[0\].b"),
        (Tables({"kind": "echo", "tools": []}), OWNER, "backend.tools"),
        (Tables({"kind": "echo", "turn_log": "x"}), OWNER, "backend.turn_log"),
        (Tables({"kind": "echo", "tools": []}), OPERATORS, ""),
    ],
)
def test_what_callers_may_put_into_the_tables(tables: Tables, by: Principal, says: str) -> None:
    if not says:
        check_tables(tables, by=by, owner_backends=("echo",))
        return
    with pytest.raises(InvalidParams, match=f"^{says}: "):
        check_tables(tables, by=by, owner_backends=("echo",))


def test_secrets_are_masked_wherever_they_are() -> None:
    table = {"url": "https://x", "headers": {"a": "s1"}, "list": ["s2", {"b": "s1"}], "n": 1}
    assert masked(table, ["s1", "s2", ""]) == {
        "url": "https://x",
        "headers": {"a": "***"},
        "list": ["***", {"b": "***"}],
        "n": 1,
    }


def test_a_search_finds_all_words_in_any_case() -> None:
    row = replace(ROW, tagline="Knows lifetimes", skills=(Skill(id="ask", tags=("Borrow",)),))
    assert fits(row, "")
    assert fits(row, "RUST borrow")
    assert fits(row, "mriiot life")
    assert not fits(row, "rust python")


def test_h_08_the_note_says_what_the_agent_may_do() -> None:
    assert "own context only" in isolation_note(ROW)
    assert "never with those of its owner" in isolation_note(replace(ROW, isolated=False))
