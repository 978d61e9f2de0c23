import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.engine.access import (
    check_granted,
    is_unrestricted,
    may_attach,
    operations_of,
    reaches,
    reaches_agents_of,
    why_denied,
)
from trunkline.model.calls import Operation
from trunkline.model.errors import PermissionDenied
from trunkline.model.principal import ANONYMOUS, EVERYTHING, Grant, Principal

READS = frozenset({"GetTask", "ListTasks"})


def denied(grants: tuple[Grant, ...], agent: str, operation: str = "SendMessage") -> str:
    refusal = why_denied(Principal(id="alice", grants=grants), agent, operation)
    return "" if refusal is None else refusal.reason


@pytest.mark.parametrize("operation", Operation)
def test_without_a_grant_everything_is_denied(operation: Operation) -> None:
    assert denied((), "acme/rust", operation) == "agent_not_granted"
    assert denied(EVERYTHING, "acme/rust", operation) == ""


@pytest.mark.parametrize(
    ("pattern", "agent", "is_granted"),
    [
        ("acme/rust", "acme/rust", True),
        ("acme/rust", "acme/rust-expert", False),
        ("acme/rust", "acme/rus", False),
        ("acme/*", "acme/rust", True),
        ("acme/*", "acme-labs/rust", False),
        ("acme/*", "labs/acme", False),
        ("*", "acme/rust", True),
        ("", "acme/rust", False),
        ("acme", "acme/rust", False),
        ("/*", "acme/rust", False),
        ("acme/r*", "acme/rust", False),
        ("*/rust", "acme/rust", False),
    ],
)
def test_a_grant_covers_a_handle_an_owner_or_all(
    pattern: str, agent: str, is_granted: bool
) -> None:
    assert denied((Grant(pattern),), agent) == ("" if is_granted else "agent_not_granted")


def test_a_grant_may_be_for_some_operations() -> None:
    grants = (Grant("acme/rust", READS), Grant("acme/*", frozenset({"CancelTask"})))
    assert denied(grants, "acme/rust", "GetTask") == ""
    assert denied(grants, "acme/rust", "CancelTask") == ""
    assert denied(grants, "acme/rust", "SendMessage") == "operation_not_granted"
    assert denied(grants, "acme/go", "GetTask") == "operation_not_granted"
    assert denied(grants, "other/go", "GetTask") == "agent_not_granted"
    assert denied((Grant("acme/rust", frozenset()),), "acme/rust") == "operation_not_granted"


def test_a_denial_names_the_agent_and_the_remedy() -> None:
    limited = Principal(id="alice", grants=(Grant("acme/rust", READS),))
    with pytest.raises(PermissionDenied, match=r"SendMessage of the agent acme/rust; ask the oper"):
        check_granted(limited, "acme/rust", "SendMessage")
    with pytest.raises(PermissionDenied, match=r"may not call the agent acme/go; ask the operator"):
        check_granted(limited, "acme/go", "SendMessage")
    check_granted(limited, "acme/rust", "GetTask")


def test_a_denial_through_a_relay_does_not_name_the_agent_here() -> None:
    limited = Principal(id="relay:relay.example:me", grants=(Grant("private/bot", READS),))
    for agent in ("private/bot", "private/other"):
        refusal = why_denied(limited, agent, "SendMessage")
        assert refusal is not None
        assert "this agent; ask for one that may" in refusal.text
        assert "private" not in refusal.text


def test_only_a_grant_for_everything_is_unrestricted() -> None:
    assert is_unrestricted(ANONYMOUS)
    assert is_unrestricted(Principal(id="a", grants=(Grant("acme/*"), Grant("*"))))
    assert not is_unrestricted(Principal(id="a", grants=(Grant("*", READS), Grant("acme/*"))))
    assert not is_unrestricted(Principal(id="a"))


def test_an_open_agent_is_for_those_who_reach_open_ones() -> None:
    anyone = Principal(id="user:ana", reaches_open=True)
    nobody = Principal(id="token:ci")
    assert why_denied(anyone, "acme/rust", "SendMessage", is_open=True) is None
    assert why_denied(anyone, "acme/rust", "SendMessage") is not None
    assert why_denied(nobody, "acme/rust", "SendMessage", is_open=True) is not None
    assert reaches(anyone, "acme/rust", is_open=True)
    assert not reaches(anyone, "acme/rust", is_open=False)
    assert not reaches(nobody, "acme/rust", is_open=True)


def test_a_credential_is_limited_to_what_it_was_made_for() -> None:
    within = (Grant("acme/rust", READS),)
    limited = Principal(id="user:ana", grants=EVERYTHING, reaches_open=True, within=within)
    for is_open in (False, True):
        assert why_denied(limited, "acme/rust", "GetTask", is_open=is_open) is None
        refused = why_denied(limited, "acme/rust", "SendMessage", is_open=is_open)
        assert refused is not None
        assert refused.reason == "operation_not_granted"
        assert why_denied(limited, "acme/go", "GetTask", is_open=is_open) is not None
        assert reaches(limited, "acme/rust", is_open=is_open)
        assert not reaches(limited, "acme/go", is_open=is_open)
    assert not is_unrestricted(limited)
    assert is_unrestricted(Principal(id="user:ana", grants=EVERYTHING, within=EVERYTHING))


def test_a_limit_gives_nothing_that_the_principal_has_not() -> None:
    limited = Principal(id="token:ci", grants=(Grant("acme/rust"),), within=EVERYTHING)
    assert why_denied(limited, "acme/rust", "SendMessage") is None
    assert why_denied(limited, "acme/go", "SendMessage") is not None
    assert not is_unrestricted(limited)


GRANTS = st.lists(
    st.builds(
        Grant,
        st.sampled_from(["acme/rust", "acme/*", "*", "labs/*"]),
        st.none() | st.frozensets(st.sampled_from(["GetTask", "ListTasks", "CancelTask"])),
    ),
    max_size=3,
).map(tuple)


@given(GRANTS, st.none() | GRANTS, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_operations_are_those_that_are_not_denied(
    grants: tuple[Grant, ...],
    within: tuple[Grant, ...] | None,
    reaches_open: bool,
    is_open: bool,
) -> None:
    principal = Principal(id="alice", grants=grants, within=within, reaches_open=reaches_open)
    found = operations_of(principal, "acme/rust", is_open=is_open)
    for operation in Operation:
        is_denied = why_denied(principal, "acme/rust", operation, is_open=is_open) is not None
        assert is_denied == (found is not None and operation not in found)


def test_only_its_own_role_lets_a_host_attach_an_agent() -> None:
    """B4: a credential of a client could register as an agent."""
    client = Principal(id="alice", grants=EVERYTHING, roles=("operator", "owner:acme"))
    assert not may_attach(client)
    assert not may_attach(client, "acme/rust")
    host = Principal(id="host", roles=("attach:acme/rust", "attach:labs/*"))
    assert may_attach(host)
    assert [may_attach(host, agent) for agent in ("acme/rust", "labs/a", "acme/b")] == [
        True,
        True,
        False,
    ]


def test_the_agents_of_an_owner_are_reached_by_any_grant_of_its_agents() -> None:
    def reached(*agents: str, within: tuple[Grant, ...] | None = None) -> bool:
        principal = Principal(id="a", grants=tuple(map(Grant, agents)), within=within)
        return reaches_agents_of(principal, "acme")

    assert reached("*")
    assert reached("acme/*")
    assert reached("other/x", "acme/x")
    assert not reached()
    # An owner whose name begins alike.
    assert not reached("acme-2/*", "acm/x")
    assert not reached("*", within=(Grant("other/*"),))
    assert reached("*", within=(Grant("acme/x"),))
