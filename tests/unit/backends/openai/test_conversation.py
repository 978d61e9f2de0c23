"""What the model is told of the conversation."""

from typing import Any

import pytest

from trunkline.backends.openai.conversation import (
    UNANSWERED,
    alternating,
    conversation,
    estimated_tokens,
    within,
)
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.model.values import Message, Part, Role


def said(*texts: str, role: Role = Role.USER) -> list[Message]:
    """The user begins, and they take turns."""
    messages = []
    for number, text in enumerate(texts):
        messages.append(Message(message_id=f"m{number}", role=role, parts=(Part(text=text),)))
        role = Role.AGENT if role is Role.USER else Role.USER
    return messages


def settings(**keys: Any) -> OpenAISettings:
    return OpenAISettings(base_url="http://x", model="m", **keys)


def told(before: list[Message], now: str, **keys: Any) -> list[tuple[str, Any]]:
    [question] = said(now)
    return [(m["role"], m["content"]) for m in conversation(settings(**keys), before, question)]


def test_roles_and_order() -> None:
    assert told(said("hi", "hello"), "more", system_prompt="be brief") == [
        ("system", "be brief"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "more"),
    ]


def test_they_always_take_turns() -> None:
    messages = [*said("a"), *said("b", "c"), *said("d", role=Role.AGENT)]
    assert [(m["role"], m["content"]) for m in alternating(messages)] == [
        ("user", "a"),
        ("assistant", UNANSWERED),
        ("user", "b"),
        ("assistant", "c\n\nd"),
    ]


def test_it_begins_with_the_user_and_leaves_out_what_is_empty() -> None:
    assert alternating([*said("x", role=Role.AGENT), *said("a", "  ")]) == [
        {"role": "user", "content": "a"}
    ]


def test_a_question_that_was_not_answered_is_not_asked_again() -> None:
    assert told(said("hi", "hello", "delete all"), "what else?") == [
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "delete all"),
        ("assistant", UNANSWERED),
        ("user", "what else?"),
    ]


@pytest.mark.parametrize(
    ("turns", "tokens", "kept"),
    [
        (9, 999, ["a", "A", "b", "B", "c", "C"]),
        (2, 999, ["b", "B", "c", "C"]),
        (1, 999, ["c", "C"]),
        (0, 999, []),
        (9, 20, ["b", "B", "c", "C"]),
        (9, 19, ["c", "C"]),
        (9, 9, []),
    ],
)
def test_the_oldest_turns_go_first_and_whole(turns: int, tokens: int, kept: list[str]) -> None:
    messages = alternating(said("a", "A", "b", "B", "c", "C"))
    rest = within(settings(max_history_turns=turns, max_history_tokens=tokens), messages)
    assert [message["content"] for message in rest] == kept


def test_tokens_are_estimated_upwards() -> None:
    assert [estimated_tokens(text) for text in ("", "abcd", "abcde")] == [4, 5, 6]
