"""Questions of a run as a message for the caller, and the caller's answer as chosen options."""

import re
from typing import Any, Final

from msgspec import UNSET

from trunkline.backends.openclaw.frames import QuestionItem
from trunkline.model.values import Message, Part, text_of

Answers = dict[str, list[str]]

_NAMED: Final = re.compile(r"^\s*([^:=]{1,80}?)\s*[:=]\s*(.+)$")
# Maximum digits in the number of an option; Python refuses to convert very long numbers.
_DIGITS: Final = 4
_SEPARATOR: Final = re.compile(r"\s*[,;]\s*")


def asked(questions: tuple[QuestionItem, ...], *, hint: str = "") -> tuple[Part, ...]:
    """The questions as text for people, and as data for programs."""
    several = len(questions) > 1
    lines = [hint] if hint else []
    for number, item in enumerate(questions, 1):
        lines.append(f"{number}. {item.question}" if several else item.question)
        for place, option in enumerate(item.options, 1):
            about = f": {option.description}" if option.description else ""
            lines.append(f"   {place}) {option.label}{about}")
        if item.options and item.multi_select:
            lines.append("   (several are possible, with commas between them)")
    if several:
        lines.append("Answer each one on a line of its own, in this order.")
    data = {
        "questions": [
            {
                "id": item.question_id,
                "question": item.question,
                "options": [option.label for option in item.options],
                "multiSelect": item.multi_select,
            }
            for item in questions
        ]
    }
    return (
        Part(text="\n".join(lines)),
        Part(data=data, media_type="application/json"),
    )


def answers_in(message: Message, questions: tuple[QuestionItem, ...]) -> Answers | None:
    """The answers in the message; None when one of the questions has no clear answer."""
    for part in message.parts:
        if part.data is not UNSET and (found := _from_data(part.data, questions)):
            return found
    text = text_of(message.parts).strip()
    if not text:
        return None
    if len(questions) == 1:
        return {questions[0].question_id: _chosen(text, questions[0])}
    return _from_lines(text, questions)


def _from_data(data: Any, questions: tuple[QuestionItem, ...]) -> Answers | None:
    if isinstance(data, dict) and isinstance(data.get("answers"), dict):
        data = data["answers"]
    if not isinstance(data, dict):
        return None
    found: Answers = {}
    for item in questions:
        value = data.get(item.question_id)
        values = value if isinstance(value, list) else [value]
        texts = [str(one) for one in values if isinstance(one, str | int | float) and f"{one}"]
        if not texts:
            return None
        found[item.question_id] = [_option(text, item) for text in texts]
    return found


def _from_lines(text: str, questions: tuple[QuestionItem, ...]) -> Answers | None:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and not any(item.multi_select for item in questions):
        lines = _SEPARATOR.split(lines[0])
    matches = [_NAMED.match(line) for line in lines]
    named = [(match[2], _named(match[1], questions)) for match in matches if match]
    if len(named) == len(lines) and all(item for _, item in named):
        # Every line names its question by id, header or number: `size: L`.
        found = {item.question_id: _chosen(said, item) for said, item in named if item}
        return found if len(found) == len(questions) else None
    if len(lines) != len(questions):
        return None
    return {
        item.question_id: _chosen(_unnumbered(line, number), item)
        for number, (item, line) in enumerate(zip(questions, lines, strict=True), 1)
    }


def _named(name: str, questions: tuple[QuestionItem, ...]) -> QuestionItem | None:
    for number, item in enumerate(questions, 1):
        if name.lower() in (item.question_id.lower(), item.header.lower(), str(number)):
            return item
    return None


def _unnumbered(line: str, number: int) -> str:
    """The answer without the number that people write before it."""
    return re.sub(rf"^\s*{number}\s*[.)]\s+", "", line)


def _chosen(text: str, item: QuestionItem) -> list[str]:
    text = text.strip()
    if item.multi_select and item.options:
        pieces = [piece for piece in _SEPARATOR.split(text) if piece]
        if len(pieces) > 1:
            return list(dict.fromkeys(_option(piece, item) for piece in pieces))
    return [_option(text, item)]


def _option(text: str, item: QuestionItem) -> str:
    """The label of the option that the text names or numbers, else the text itself."""
    wanted = text.strip()
    for option in item.options:
        if wanted.lower().rstrip(".!") == option.label.lower().rstrip(".!"):
            return option.label
    number = wanted.strip("().#")
    if len(number) <= _DIGITS and number.isdecimal() and 1 <= int(number) <= len(item.options):
        return item.options[int(number) - 1].label
    return wanted
