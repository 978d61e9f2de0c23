from typing import Literal

import pytest
from msgspec import structs

from trunkline.engine.admission import MAX_ID_CHARS, MessageRules, check_follow_up, check_request
from trunkline.engine.media_types import mode_matches
from trunkline.model.calls import (
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from trunkline.model.errors import (
    ContentTypeNotSupported,
    InvalidParams,
    PushNotificationNotSupported,
    UnsupportedOperation,
)
from trunkline.model.profile import Profile
from trunkline.model.values import TERMINAL, Message, Part, Role, TaskState


def message(*parts: Part, role: Role = Role.USER, context_id: str = "") -> Message:
    return Message(
        message_id="m",
        task_id="t",
        context_id=context_id,
        role=role,
        parts=parts or (Part(text="hi"),),
    )


def check_message(message: Message, modes: tuple[str, ...]) -> None:
    assert MessageRules(modes, Profile()).admit(message) is message


def test_a_client_does_not_speak_as_the_agent() -> None:
    with pytest.raises(InvalidParams, match=r"message\.role.*ROLE_USER") as caught:
        check_message(message(role=Role.AGENT), ("*/*",))
    assert caught.value.violations[0].field == "message.role"


@pytest.mark.parametrize(
    ("part", "mode"),
    [
        (Part(text="a"), "text/plain"),
        (Part(text="a", media_type="text/markdown"), "text/markdown"),
        (Part(data={"a": 1}), "application/json"),
        (Part(data=None), "application/json"),
        (Part(raw=b"a", media_type="image/png"), "image/png"),
        (Part(url="u", media_type="Image/PNG; q=1"), "image/png"),
    ],
)
def test_a_part_has_the_stated_type_or_that_of_its_content(part: Part, mode: str) -> None:
    check_message(message(part), (mode,))
    with pytest.raises(ContentTypeNotSupported):
        check_message(message(part), ("video/mp4",))


@pytest.mark.parametrize("part", [Part(raw=b"a"), Part(url="u")])
def test_a_file_of_unknown_type_is_let_in(part: Part) -> None:
    check_message(message(part), ("text/plain",))


def test_the_refusal_names_the_part_the_type_and_what_would_do() -> None:
    parts = (Part(text="a"), Part(raw=b"a", media_type="image/png"))
    with pytest.raises(ContentTypeNotSupported) as caught:
        check_message(message(*parts), ("text/plain", "application/json"))
    assert caught.value.message == (
        "message.parts[1]: this agent does not take image/png; "
        "it takes text/plain, application/json"
    )
    assert caught.value.metadata == {
        "mediaType": "image/png",
        "supported": "text/plain, application/json",
    }


@pytest.mark.parametrize(
    ("offered", "wanted", "matches"),
    [
        ("text/plain", "text/plain", True),
        ("text/plain", "text/html", False),
        ("TEXT/Plain", "text/pLAIN", True),
        ("text/plain", "text/plain; charset=utf-8", True),
        ("text/plain;charset=utf-8", "text/plain", True),
        (" text/plain ", "text/plain", True),
        ("*/*", "image/png", True),
        ("*", "image/png", True),
        ("image/png", "*/*", True),
        ("image/png", "*", True),
        ("text/*", "text/html", True),
        ("text/html", "text/*", True),
        ("text/*", "image/png", False),
        ("text/*", "text/*", True),
        ("image/*", "text/*", False),
        ("text", "text/plain", True),
        ("text/plain", "text", True),
        ("Text", "text/html", False),
        ("text/*", "text", True),
        ("", "text/plain", False),
        ("application/json", "application/vnd.api+json", False),
    ],
)
def test_media_types_match(offered: str, wanted: str, matches: bool) -> None:
    assert mode_matches(offered, wanted) is matches


@pytest.mark.parametrize("context_id", ["", "c"])
def test_a_follow_up_may_leave_its_context_out(context_id: str) -> None:
    check_follow_up(message(context_id=context_id), context_id="c", state=TaskState.WORKING)


def test_a_follow_up_in_another_context_is_refused() -> None:
    with pytest.raises(InvalidParams) as caught:
        check_follow_up(message(context_id="d"), context_id="c", state=TaskState.WORKING)
    assert caught.value.violations[0].field == "message.contextId"


@pytest.mark.parametrize("state", TaskState)
def test_a_task_that_ended_takes_no_further_message(state: TaskState) -> None:
    if state not in TERMINAL:
        check_follow_up(message(), context_id="c", state=state)
        return
    with pytest.raises(UnsupportedOperation, match="without taskId") as caught:
        check_follow_up(message(), context_id="c", state=state)
    assert caught.value.metadata == {"taskId": "t", "state": state.value}


def test_a_wrong_context_is_named_before_the_end_of_the_task() -> None:
    with pytest.raises(InvalidParams):
        check_follow_up(message(context_id="d"), context_id="c", state=TaskState.COMPLETED)


def request(field: str = "message_id", value: str = "m") -> SendMessageRequest:
    sent = Message(message_id="m", role=Role.USER, parts=(Part(text="hi"),))
    return SendMessageRequest(message=structs.replace(sent, **{field: value}))


@pytest.mark.parametrize("field", ["message_id", "context_id", "task_id"])
def test_ids_of_clients_have_a_limit(field: str) -> None:
    check_request(request(field, "x" * MAX_ID_CHARS))
    with pytest.raises(InvalidParams, match=f"{MAX_ID_CHARS} characters") as refused:
        check_request(request(field, "x" * (MAX_ID_CHARS + 1)))
    first, *rest = field.split("_")
    (violation,) = refused.value.violations
    assert violation.field == f"message.{first}{''.join(map(str.title, rest))}"


def test_push_notifications_are_refused() -> None:
    push = TaskPushNotificationConfig(url="http://127.0.0.1/hook")
    configured = structs.replace(
        request(), configuration=SendMessageConfiguration(task_push_notification_config=push)
    )
    with pytest.raises(PushNotificationNotSupported, match="leave out"):
        check_request(configured)


FILE, TEXT = Part(raw=b"x"), Part(text="hi")


@pytest.mark.parametrize(
    ("files", "parts", "kept"),
    [
        ("ignore", (TEXT, FILE), (TEXT,)),
        ("ignore", (FILE,), (FILE,)),
        ("accept", (TEXT, FILE), (TEXT, FILE)),
    ],
)
def test_a_message_of_the_journal_has_the_parts_that_the_agent_takes(
    files: Literal["ignore", "accept"], parts: tuple[Part, ...], kept: tuple[Part, ...]
) -> None:
    rules = MessageRules(("*/*",), Profile(files=files))
    assert rules.for_agent(message(*parts)).parts == kept
