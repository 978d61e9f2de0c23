from typing import Any

import pytest

from trunkline.engine.admission import MessageRules
from trunkline.model.errors import Case, ContentTypeNotSupported, InvalidParams
from trunkline.model.profile import Profile
from trunkline.model.values import Message, Part, Role

FILE, LINK = Part(raw=b"12345"), Part(url="https://example.com/f")
TEXT, DATA = Part(text="hi"), Part(data={"a": 1})


def message(*parts: Part, role: Role = Role.USER) -> Message:
    return Message(message_id="m", role=role, parts=parts)


def rules(*modes: str, **keys: Any) -> MessageRules:
    return MessageRules(modes or ("*/*",), Profile(**keys))


def test_a_message_in_order_is_let_in_as_it_is() -> None:
    sent = message(TEXT, DATA, FILE, LINK)
    assert rules().admit(sent) is sent
    assert rules(files="ignore").admit(only := message(TEXT)) is only


@pytest.mark.parametrize("part", [FILE, LINK])
def test_a_file_is_rejected_as_the_profile_says(part: Part) -> None:
    sent = message(TEXT, part)
    with pytest.raises(InvalidParams) as invalid:
        rules(files="reject", files_reject_code=-32602).admit(sent)
    assert (invalid.value.case, invalid.value.metadata) == (Case.FILE_PART, {"part": "1"})
    assert invalid.value.violations[0].field == "message.parts[1]"
    with pytest.raises(ContentTypeNotSupported, match=r"message\.parts\[1\]: is a file"):
        rules(files="reject").admit(sent)


def test_ignored_files_are_gone() -> None:
    admitted = rules(files="ignore").admit(message(FILE, TEXT, LINK, DATA))
    assert admitted is not None
    assert admitted.parts == (TEXT, DATA)


def test_ignored_files_alone_are_refused_or_answered() -> None:
    with pytest.raises(InvalidParams, match=r"message\.parts: holds files alone"):
        rules(files="ignore").admit(message(FILE))
    loose = rules(files="ignore", message_checks="openclaw-inbound")
    assert loose.admit(message(FILE)) is None


def test_a_file_has_a_largest_size() -> None:
    assert rules(max_file_bytes=5).admit(message(FILE, LINK)) is not None
    with pytest.raises(InvalidParams, match=r"parts\[1\]: is a file of 5 bytes.* 4 at most"):
        rules(max_file_bytes=4).admit(message(LINK, FILE))


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_message_without_content_is_let_in_or_answered(text: str) -> None:
    sent = message(Part(text=text))
    assert rules().admit(sent) is sent
    loose = rules(message_checks="openclaw-inbound")
    assert loose.admit(sent) is None
    assert loose.admit(with_data := message(Part(text=text), DATA)) is with_data


def test_who_is_not_strict_minds_neither_role_nor_type() -> None:
    loose = rules("text/plain", message_checks="openclaw-inbound")
    assert loose.admit(sent := message(DATA, role=Role.AGENT)) is sent
