from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from trunkline.model.calls import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
)
from trunkline.model.values import TaskState

WITH_HISTORY: list[Callable[..., Any]] = [
    SendMessageConfiguration,
    lambda **keys: GetTaskRequest(id="t", **keys),
    ListTasksRequest,
]


@pytest.mark.parametrize("make", WITH_HISTORY, ids=["send", "get", "list"])
@pytest.mark.parametrize("length", [None, 0, 1])
def test_a_history_may_be_cut(make: Callable[..., Any], length: int | None) -> None:
    assert make(history_length=length).history_length == length


@pytest.mark.parametrize("make", WITH_HISTORY, ids=["send", "get", "list"])
def test_a_history_is_not_shorter_than_nothing(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="historyLength must not be negative"):
        make(history_length=-1)


@pytest.mark.parametrize("size", [0, -1, 101])
def test_a_page_has_one_to_a_hundred_tasks(size: int) -> None:
    with pytest.raises(ValueError, match="pageSize must be between 1 and 100"):
        ListTasksRequest(page_size=size)


@pytest.mark.parametrize("size", [None, 1, 100])
def test_page_sizes_within_the_bounds(size: int | None) -> None:
    assert ListTasksRequest(page_size=size).page_size == size


def test_a_list_without_filters_is_of_everything() -> None:
    request = msgspec.json.decode(b"{}", type=ListTasksRequest)
    assert request == ListTasksRequest(status=TaskState.UNSPECIFIED)


@pytest.mark.parametrize("kind", [GetTaskRequest, CancelTaskRequest, SubscribeToTaskRequest])
def test_a_request_for_a_task_names_it(kind: Callable[..., Any]) -> None:
    assert kind(id="t").id == "t"
    with pytest.raises(ValueError, match="id must not be empty"):
        kind(id="")
