import json
from typing import Any

import pytest

from trunkline.model.errors import Case, InvalidParams
from trunkline.model.events import Entry
from trunkline.model.profile import Profile
from trunkline.model.values import Part, Role, TaskState, TaskStatus, TaskStatusUpdateEvent
from trunkline.protocol.dialects import v03_dialect
from trunkline.protocol.v03 import V03Dialect

LOOSE = Profile(
    dialect="v0.3",
    message_checks="openclaw-inbound",
    files="reject",
    files_reject_code=-32602,
    question_is_final=False,
)
LEGACY = Profile(dialect="v0.3-legacy")


def send(dialect: V03Dialect, *parts: Any, **fields: Any) -> tuple[Part, ...]:
    message = {"messageId": "m", "role": "user", "parts": parts} | fields
    return dialect.decode_send(json.dumps({"message": message}).encode()).message.parts


def test_loose_parts_are_kept_where_their_kind_is_known() -> None:
    loose = v03_dialect(LOOSE, is_rest=False)
    parts = send(
        loose,
        {"kind": "text", "text": "a"},
        {"kind": "x"},
        {"text": "b"},
        {"kind": "data", "data": {}},
    )
    assert parts == (Part(text="a"), Part(data={}))


@pytest.mark.parametrize("parts", [(), ({"kind": "x"},), ({"text": "b"},), ({},)])
def test_loose_parts_that_leave_nothing_become_a_blank(parts: Any) -> None:
    assert send(v03_dialect(LOOSE, is_rest=False), *parts) == (Part(text=""),)


def test_a_loose_file_is_refused_before_the_missing_id() -> None:
    file = {"kind": "file", "file": {"uri": "u"}}
    with pytest.raises(InvalidParams) as caught:
        send(v03_dialect(LOOSE, is_rest=False), {"kind": "text", "text": "a"}, file, messageId="")
    assert (caught.value.case, caught.value.metadata) == (Case.FILE_PART, {"part": "1"})
    accepting = v03_dialect(
        Profile(dialect="v0.3", message_checks="openclaw-inbound"), is_rest=False
    )
    assert send(accepting, file) == (Part(url="u"),)


def test_a_loose_part_at_fault_is_named_by_its_place() -> None:
    with pytest.raises(InvalidParams, match=r"message\.parts\[1\]\.text: must be a string"):
        send(v03_dialect(LOOSE, is_rest=False), {"kind": "x"}, {"kind": "text", "text": 1})


def test_a_loose_push_configuration_is_passed_over() -> None:
    body = {
        "message": {"messageId": "m", "role": "agent", "parts": []},
        "configuration": {"blocking": False, "pushNotificationConfig": {"url": ""}},
    }
    request = v03_dialect(LOOSE, is_rest=False).decode_send(json.dumps(body).encode())
    assert request.configuration is not None
    assert request.configuration.task_push_notification_config is None
    assert request.configuration.return_immediately
    assert request.message.role is Role.AGENT


def test_a_legacy_page_says_how_many_tasks_are_on_it() -> None:
    task = b'{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}'
    for dialect in (v03_dialect(LEGACY, is_rest=False), v03_dialect(LEGACY, is_rest=True)):
        page = dialect.page([task], next_page_token="", page_size=50, total_size=9)
        assert json.loads(page)["pageSize"] == 1
    plain = v03_dialect(Profile(), is_rest=False).page(
        [task], next_page_token="", page_size=50, total_size=9
    )
    assert json.loads(plain)["pageSize"] == 50


@pytest.mark.parametrize(("profile", "is_final"), [(LOOSE, False), (Profile(), True)])
def test_a_question_is_final_or_not(profile: Profile, is_final: bool) -> None:
    status = TaskStatus(state=TaskState.INPUT_REQUIRED)
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=status)
    shown = b'"final":true' if is_final else b'"final":false'
    for dialect in (v03_dialect(profile, is_rest=False), v03_dialect(profile, is_rest=True)):
        assert shown in b"".join(dialect.event(Entry.of(1, event)))
