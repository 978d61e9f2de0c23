"""The messages of a request: the conversation within its budget, and the question."""

from collections.abc import Iterable
from typing import Any, Final

from trunkline.backends.model_content import Takes, content_of, told
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.model.values import Message, Role

ChatMessage = dict[str, Any]

UNANSWERED: Final = "(This was not answered.)"

_ROLES: Final = {Role.USER: "user", Role.AGENT: "assistant"}
_CHARS_PER_TOKEN: Final = 4
# Estimated characters of a message beside its text.
_MESSAGE_TOKENS: Final = 4


def conversation(
    settings: OpenAIBackend, before: Iterable[Message], now: Message
) -> list[ChatMessage]:
    """All messages of a first request. Raises NotTaken for content that the model cannot read."""
    takes = Takes(images=settings.images, files=settings.files, links=settings.links)
    question: ChatMessage = {"role": "user", "content": content_of(now.parts, takes)}
    head: list[ChatMessage] = []
    if settings.system_prompt:
        head = [{"role": "system", "content": settings.system_prompt}]
    earlier = within(settings, alternating(before))
    if earlier and earlier[-1]["role"] == "user":
        earlier.append(_unanswered())
    return [*head, *earlier, question]


def alternating(messages: Iterable[Message]) -> list[ChatMessage]:
    """The messages as text, beginning with the user. Several messages of the agent become one.

    Some models insist on alternation. A question that was canceled gets a note that it was not
    answered: joined with the next question, the model would answer it as well.
    """
    told_so_far: list[ChatMessage] = []
    for message in messages:
        role, text = _ROLES[message.role], told(message.parts)
        if not text.strip():
            continue
        if told_so_far and told_so_far[-1]["role"] == role == "assistant":
            told_so_far[-1]["content"] += f"\n\n{text}"
            continue
        if told_so_far and told_so_far[-1]["role"] == role:
            told_so_far.append(_unanswered())
        if told_so_far or role == "user":
            told_so_far.append({"role": role, "content": text})
    return told_so_far


def _unanswered() -> ChatMessage:
    return {"role": "assistant", "content": UNANSWERED}


def within(settings: OpenAIBackend, messages: list[ChatMessage]) -> list[ChatMessage]:
    """The newest whole turns that fit, each a message of the user and its answer."""
    kept: list[ChatMessage] = []
    turns = tokens = 0
    turn: list[ChatMessage] = []
    for message in reversed(messages):
        turn.insert(0, message)
        if message["role"] != "user":
            continue
        turns += 1
        tokens += sum(estimated_tokens(each["content"]) for each in turn)
        if turns > settings.max_history_turns or tokens > settings.max_history_tokens:
            break
        kept[:0] = turn
        turn = []
    return kept


def estimated_tokens(text: str) -> int:
    """A rough estimate: no two models count alike, and the limit of the server decides."""
    return _MESSAGE_TOKENS + -(-len(text) // _CHARS_PER_TOKEN)
