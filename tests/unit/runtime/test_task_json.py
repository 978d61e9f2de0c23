import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import InvalidParams
from trunkline.model.values import TaskState
from trunkline.ports.store import Snapshot
from trunkline.runtime.task_json import listed_json, page_position, page_token, task_json


def snapshot(history: int = 3, artifacts: bytes = b"") -> Snapshot:
    messages = [
        {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        for number in range(1, history + 1)
    ]
    task: dict[str, Any] = {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_WORKING"},
        "metadata": {"k": "v"},
    }
    if messages:
        task["history"] = messages
    return Snapshot(4, json.dumps(task).encode(), artifacts)


ARTIFACTS = b'[{"artifactId":"a","parts":[{"text":"x"}]}]'


def test_a_task_is_its_stored_pieces() -> None:
    stored = snapshot(artifacts=ARTIFACTS)
    assert task_json(snapshot()) == snapshot().task
    assert json.loads(task_json(stored)) == {
        **json.loads(stored.task),
        "artifacts": json.loads(ARTIFACTS),
    }


@pytest.mark.parametrize(
    ("length", "kept"),
    [
        (None, ["m1", "m2", "m3"]),
        (0, []),
        (1, ["m3"]),
        (2, ["m2", "m3"]),
        (3, ["m1", "m2", "m3"]),
        (99, ["m1", "m2", "m3"]),
    ],
)
def test_of_the_history_the_most_recent_is_kept(length: int | None, kept: list[str]) -> None:
    for body in (
        task_json(snapshot(artifacts=ARTIFACTS), length),
        listed_json(snapshot(), history_length=length, include_artifacts=True),
    ):
        task = json.loads(body)
        assert [message["messageId"] for message in task.get("history", [])] == kept
        # A history of none is left out.
        assert ("history" in task) == bool(kept)
        assert task["metadata"] == {"k": "v"}


def test_a_task_without_history_has_none_to_cut() -> None:
    assert task_json(snapshot(history=0), 0) == snapshot(history=0).task


@pytest.mark.parametrize("artifacts", [b"", ARTIFACTS])
def test_a_listed_task_has_artifacts_when_asked_for(artifacts: bytes) -> None:
    stored = snapshot(artifacts=artifacts)
    bare = listed_json(stored, history_length=None, include_artifacts=False)
    assert bare == stored.task
    full = listed_json(stored, history_length=None, include_artifacts=True)
    assert json.loads(full)["artifacts"] == json.loads(artifacts or b"[]")


POSITIONS = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
REQUESTS = st.builds(
    ListTasksRequest,
    context_id=st.text(max_size=5),
    status=st.sampled_from(TaskState),
    status_timestamp_after=st.sampled_from(["", "2026-01-31T23:59:59Z"]),
)


def with_token(request: ListTasksRequest, token: str) -> ListTasksRequest:
    return ListTasksRequest(
        context_id=request.context_id,
        status=request.status,
        status_timestamp_after=request.status_timestamp_after,
        page_token=token,
        # What is shown of each task may change from page to page.
        page_size=7,
        include_artifacts=True,
    )


@given(POSITIONS, REQUESTS)
def test_a_token_leads_back_to_its_place(
    position: tuple[int, int], request: ListTasksRequest
) -> None:
    token = page_token(position, request)
    assert page_position(with_token(request, token)) == position
    assert token.isascii()
    assert "=" not in token


def test_the_last_page_has_no_token_and_the_first_needs_none() -> None:
    assert page_token(None, ListTasksRequest()) == ""
    assert page_position(ListTasksRequest()) is None


@given(st.text(min_size=1, max_size=30))
def test_a_token_of_somebody_else_is_refused(token: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        page_position(ListTasksRequest(page_token=token))
    assert caught.value.violations[0].field == "pageToken"


@pytest.mark.parametrize("text", ["1.2", "1.2.3.4", "a.b.c", "9223372036854775808.1.1", "1..1"])
def test_a_token_that_was_tampered_with_is_refused(text: str) -> None:
    token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    with pytest.raises(InvalidParams, match="not a token that this agent gave out"):
        page_position(ListTasksRequest(page_token=token))


@pytest.mark.parametrize(
    "other",
    [
        ListTasksRequest(context_id="d", status=TaskState.WORKING),
        ListTasksRequest(context_id="c", status=TaskState.FAILED),
        ListTasksRequest(
            context_id="c", status=TaskState.WORKING, status_timestamp_after="2026-01-31T00:00:00Z"
        ),
    ],
    ids=["context", "status", "time"],
)
def test_a_token_belongs_to_its_filters(other: ListTasksRequest) -> None:
    token = page_token((1, 2), ListTasksRequest(context_id="c", status=TaskState.WORKING))
    with pytest.raises(InvalidParams, match="other filters"):
        page_position(with_token(other, token))
