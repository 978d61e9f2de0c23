"""Which bindings and versions a test is for, and what tests say often."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

import pytest
from tests.bindings.clients import Event, Refused
from tests.bindings.shapes import Json

JSONRPC = ("jsonrpc-1.0", "jsonrpc-0.3")
REST = ("rest-1.0", "rest-0.3")
V10 = ("jsonrpc-1.0", "rest-1.0")
V03 = ("jsonrpc-0.3", "rest-0.3")


def over(*dialects: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("dialect", dialects)


@pytest.fixture
def in_memory() -> None:
    """As `database` of a module whose subject does not depend on the store."""


@contextmanager
def refused(reason: str, *fields: str) -> Iterator[pytest.ExceptionInfo[Refused]]:
    """The block is refused for this reason and, where named, because of these fields."""
    with pytest.raises(Refused) as caught:
        yield caught
    assert caught.value.reason == reason
    if fields:
        assert caught.value.fields == list(fields)


def states(events: list[Event]) -> list[str]:
    """The states that a stream tells of, without their prefix, each once."""
    told = [event.state.removeprefix("TASK_STATE_") for event in events if event.state]
    return [state for state, _ in groupby(told)]


def text_of(task: Json) -> str:
    """What the artifacts of a task say."""
    return "".join(
        part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"]
    )
