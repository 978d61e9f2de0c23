"""`MessageRules` and its like: the rules of A2A and of the profile for a message."""

from typing import Final

from msgspec.structs import replace

from trunkline.engine.media_types import mode_matches, stated_mode
from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import (
    Case,
    ContentTypeNotSupported,
    InvalidParams,
    PushNotificationNotSupported,
    UnsupportedOperation,
    file_part_refused,
)
from trunkline.model.profile import Profile
from trunkline.model.values import TERMINAL, Message, Part, Role, TaskState

# The store keeps and indexes the ids of clients, so their length is limited. A UUID has 36
# characters.
MAX_ID_CHARS: Final = 256


def check_request(request: SendMessageRequest) -> None:
    message = request.message
    longest = max(len(message.message_id), len(message.context_id), len(message.task_id))
    if longest > MAX_ID_CHARS:
        raise _too_long(message)
    # PostgreSQL does not store this character, and every store can be copied to PostgreSQL.
    if "\0" in message.message_id + message.context_id + message.task_id:
        raise _has_nul(message)
    configuration = request.configuration
    if configuration is not None and configuration.task_push_notification_config is not None:
        raise PushNotificationNotSupported(
            "Push notifications are not supported by this agent; "
            "leave out configuration.taskPushNotificationConfig"
        )


def _ids(message: Message) -> dict[str, str]:
    return {
        "messageId": message.message_id,
        "contextId": message.context_id,
        "taskId": message.task_id,
    }


def _too_long(message: Message) -> InvalidParams:
    field = next(name for name, value in _ids(message).items() if len(value) > MAX_ID_CHARS)
    return InvalidParams.at(
        f"message.{field}", f"must not be longer than {MAX_ID_CHARS} characters"
    )


def _has_nul(message: Message) -> InvalidParams:
    field = next(name for name, value in _ids(message).items() if "\0" in value)
    return InvalidParams.at(f"message.{field}", "must not have the character U+0000")


def check_follow_up(message: Message, *, context_id: str, state: TaskState) -> None:
    """Check a message to a task that exists (A2A 1.0, 3.4.3)."""
    # A2A 1.0, 3.4.3: a context that differs from that of the task is refused, never replaced.
    if message.context_id and message.context_id != context_id:
        raise InvalidParams.at(
            "message.contextId",
            "is not the context of the task that message.taskId names; leave it out",
            metadata={
                "taskId": message.task_id,
                "contextId": context_id,
                "givenContextId": message.context_id,
            },
            case=Case.OTHER_CONTEXT,
        )
    # A2A: a task in a terminal state cannot be restarted.
    if state in TERMINAL:
        raise UnsupportedOperation(
            f"Task {message.task_id} has ended ({state}) and takes no further messages; "
            "send the message without taskId to start a new task in the same context",
            metadata={"taskId": message.task_id, "state": state.value},
            case=Case.MESSAGE_TO_ENDED_TASK,
        )


def context_of(profile: Profile, message: Message) -> str:
    """The context of a new task; empty when the task begins a new context."""
    if profile.context_mode != "stateless":
        return message.context_id
    if message.context_id and profile.stateless_context == "reject":
        raise InvalidParams.at(
            "message.contextId",
            "this agent keeps no contexts, each message stands for itself; leave it out",
        )
    return message.context_id or message.message_id


# The answer to an empty message, where the profile answers instead of refusing.
NO_CONTENT: Final = "The inbound A2A request did not contain any supported text or data parts."


# A constant, because Python 3.11 looks up enum members through the metaclass, which is slow.
_USER: Final = Role.USER


class MessageRules:
    """The rules for every message to one agent."""

    def __init__(self, modes: tuple[str, ...], profile: Profile) -> None:
        self._modes = modes
        self._takes_all = "*/*" in modes
        self._profile = profile
        self._is_strict = profile.message_checks == "strict"
        self._minds_files = profile.files != "accept" or profile.max_file_bytes > 0

    def admit(self, message: Message) -> Message | None:
        """The message as the agent gets it; None for a message without content, where the profile
        answers it instead of refusing it. Raises InvalidParams and ContentTypeNotSupported."""
        if self._minds_files:
            kept = self._without_files(message)
            if not kept:
                return None
            if len(kept) < len(message.parts):
                message = replace(message, parts=kept)
        if not self._is_strict:
            return message if any(map(_has_content, message.parts)) else None
        if message.role is not _USER:
            raise InvalidParams.at("message.role", "a client sends messages as ROLE_USER")
        if not self._takes_all:
            self._check_modes(message)
        return message

    def for_agent(self, message: Message) -> Message:
        """A message from the journal as the agent gets it. Of a task that another gateway began,
        the journal has all parts."""
        if self._profile.files != "ignore":
            return message
        kept = tuple([part for part in message.parts if not _is_file(part)])
        if not kept or len(kept) == len(message.parts):
            return message
        return replace(message, parts=kept)

    def _check_modes(self, message: Message) -> None:
        modes = self._modes
        for index, part in enumerate(message.parts):
            mode = stated_mode(part)
            # Patterns are compared only for a type that the agent does not name itself.
            if mode and mode not in modes and not any(mode_matches(each, mode) for each in modes):
                raise ContentTypeNotSupported(
                    f"message.parts[{index}]: this agent does not take {mode}; "
                    f"it takes {', '.join(modes)}",
                    metadata={"mediaType": mode, "supported": ", ".join(modes)},
                )

    def _without_files(self, message: Message) -> tuple[Part, ...]:
        """The parts that the agent gets, after the rules for files."""
        kept = []
        for index, part in enumerate(message.parts):
            if not _is_file(part):
                kept.append(part)
            elif self._profile.files == "reject":
                raise self._refused(index)
            elif self._profile.files == "accept":
                self._check_size(part, index)
                kept.append(part)
        if not kept and self._is_strict:
            raise InvalidParams.at(
                "message.parts", "holds files alone, which this agent does not read; send text"
            )
        return tuple(kept)

    def _refused(self, index: int) -> Exception:
        refused = file_part_refused(index)
        if self._profile.files_reject_code == -32602:
            return refused
        return ContentTypeNotSupported(refused.message)

    def _check_size(self, part: Part, index: int) -> None:
        limit = self._profile.max_file_bytes
        if part.raw is not None and len(part.raw) > limit:
            raise InvalidParams.at(
                f"message.parts[{index}]",
                f"is a file of {len(part.raw)} bytes, and this agent takes {limit} at most",
            )


def _is_file(part: Part) -> bool:
    return part.raw is not None or part.url is not None


def _has_content(part: Part) -> bool:
    return part.text is None or bool(part.text.strip())
