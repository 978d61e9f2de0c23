"""May this message in? The rules of A2A for a message that names a task or a context."""

from trunkline.model.errors import ContentTypeNotSupported, InvalidParams, UnsupportedOperation
from trunkline.model.values import TERMINAL, Message, Part, Role, TaskState


def check_message(message: Message, modes: tuple[str, ...]) -> None:
    """What holds for every message to an agent that takes content of these media types."""
    if message.role is not Role.USER:
        raise InvalidParams.at("message.role", "a client sends messages as ROLE_USER")
    for index, part in enumerate(message.parts):
        mode = _media_type(part)
        # A type that the agent names, or an agent that takes all: no need for the patterns.
        if not mode or mode in modes or "*/*" in modes:
            continue
        if not any(mode_matches(each, mode) for each in modes):
            raise ContentTypeNotSupported(
                f"message.parts[{index}]: this agent does not take {mode}; "
                f"it takes {', '.join(modes)}",
                metadata={"mediaType": mode, "supported": ", ".join(modes)},
            )


def check_follow_up(message: Message, *, context_id: str, state: TaskState) -> None:
    """What holds for a message to a task that exists."""
    # A2A: a context that differs from the task's is refused, never replaced.
    if message.context_id and message.context_id != context_id:
        raise InvalidParams.at(
            "message.contextId",
            "is not the context of the task that message.taskId names; leave it out",
        )
    # A2A: a task in a terminal state cannot be restarted.
    if state in TERMINAL:
        raise UnsupportedOperation(
            f"Task {message.task_id} has ended ({state}) and takes no further messages; "
            "send the message without taskId to start a new task in the same context",
            metadata={"taskId": message.task_id, "state": state.value},
        )


def mode_matches(offered: str, wanted: str) -> bool:
    """Whether two media types name a common one; `*/*` and `text/*` are patterns."""
    offered, wanted = _bare(offered), _bare(wanted)
    if offered == wanted or offered in ("*", "*/*") or wanted in ("*", "*/*"):
        return True
    kind, _, subtype = offered.partition("/")
    wanted_kind, _, wanted_subtype = wanted.partition("/")
    return kind == wanted_kind and "*" in (subtype, wanted_subtype)


def _bare(mode: str) -> str:
    mode = mode.partition(";")[0].strip().lower()
    # The old short name, still found in cards.
    return "text/plain" if mode == "text" else mode


def _media_type(part: Part) -> str:
    """The stated type, else the one that the kind of content implies, else unknown."""
    if part.media_type:
        return part.media_type
    if part.text is not None:
        return "text/plain"
    return "" if part.raw is not None or part.url is not None else "application/json"
