import pytest

from trunkline.engine.access import check_granted, is_unrestricted, why_denied
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


def test_only_a_grant_for_everything_is_unrestricted() -> None:
    assert is_unrestricted(ANONYMOUS)
    assert is_unrestricted(Principal(id="a", grants=(Grant("acme/*"), Grant("*"))))
    assert not is_unrestricted(Principal(id="a", grants=(Grant("*", READS), Grant("acme/*"))))
    assert not is_unrestricted(Principal(id="a"))
