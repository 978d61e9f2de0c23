import inspect

import pytest

from trunkline.model import errors
from trunkline.model.errors import (
    CallerError,
    FieldViolation,
    InvalidParams,
    TaskNotFound,
    TooManyRequests,
    TrunklineError,
    Unavailable,
    WrongHttpMethod,
)

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, TrunklineError)
}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = (errors.__doc__ or "").replace("├──", " ").replace("└──", " ").split()
    assert [name for name in CLASSES if name not in drawn] == []


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"TrunklineError"}))
def test_families_are_one_level_deep(name: str) -> None:
    assert TrunklineError in CLASSES[name].__mro__[1:3]


def test_an_error_keeps_its_text_and_metadata() -> None:
    metadata = {"a": "b"}
    error = CallerError("no", metadata=metadata)
    metadata["a"] = "changed"
    assert (str(error), error.message, error.metadata) == ("no", "no", {"a": "b"})
    assert CallerError("no").metadata == {}


def test_invalid_params_name_the_field() -> None:
    error = InvalidParams.at("message.role", "is wrong")
    assert error.message == "message.role: is wrong"
    assert error.violations == (FieldViolation("message.role", "is wrong"),)
    assert InvalidParams("no").violations == ()


def test_a_missing_task_is_named() -> None:
    error = TaskNotFound("t1")
    assert error.message == "Task not found: t1"
    assert error.metadata == {"taskId": "t1"}


def test_errors_tell_a_client_what_to_do_next() -> None:
    assert WrongHttpMethod("no", allow="GET").allow == "GET"
    assert TooManyRequests("no", retry_after_s=5).retry_after_s == 5
    assert Unavailable("no", retry_after_s=7).retry_after_s == 7


def test_a_reached_limit_names_its_record() -> None:
    assert errors.LimitReached("too many", key="budget").key == "budget"


def test_a_refused_credential_differs_from_a_missing_one() -> None:
    assert not errors.Unauthenticated("none").has_credential
    assert errors.Unauthenticated("wrong", has_credential=True).has_credential
