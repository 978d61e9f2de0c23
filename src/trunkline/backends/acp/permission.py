"""Permissions: the request of an agent as a question, and the answer of the caller. No I/O."""

from typing import Any

from msgspec import Struct

from trunkline.backends.json_values import table, tables, text
from trunkline.model.outputs import Question
from trunkline.model.values import Part

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}


class Option(Struct, frozen=True):
    id: str
    name: str
    kind: str


class Asked(Struct, frozen=True):
    what: str
    options: tuple[Option, ...]


def asked(params: dict[str, Any]) -> Asked:
    """The options for a caller. A permission for ever is left out if there are other options:
    the operator decides about that, not a caller."""
    options = [
        Option(text(o.get("optionId")), text(o.get("name")), text(o.get("kind")))
        for o in tables(params.get("options"))
        if text(o.get("optionId"))
    ]
    lasting = [option for option in options if option.kind == "allow_always"]
    offered = [option for option in options if option not in lasting] or options
    title = text(table(params.get("toolCall")).get("title"))
    return Asked(title or "use a tool", tuple(offered))


def question(request: Asked) -> Question:
    lines = [f"{i}. {option.name or option.id}" for i, option in enumerate(request.options, 1)]
    words = "\n".join(
        [f"The agent asks for permission: {request.what}", *lines, "Answer with one of them."]
    )
    options = [{"id": o.id, "name": o.name, "kind": o.kind} for o in request.options]
    return Question((Part(text=words), Part(data={"permission": request.what, "options": options})))


def chosen(request: Asked, answer: str) -> dict[str, Any]:
    """The option with this id, name or number; any other answer rejects the request once."""
    words = answer.strip().strip(".\"'").casefold()
    for number, option in enumerate(request.options, 1):
        if words in (option.id.casefold(), option.name.casefold(), str(number)):
            return _selected(option)
    return rejected(request)


def rejected(request: Asked) -> dict[str, Any]:
    for kind in ("reject_once", "reject_always"):
        for option in request.options:
            if option.kind == kind:
                return _selected(option)
    return CANCELLED


def _selected(option: Option) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option.id}}
