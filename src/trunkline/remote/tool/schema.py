"""The input of the tool as JSON Schema, and as the tool definitions of model vendors."""

from collections.abc import Sequence
from typing import Any, Final

Schema = dict[str, Any]

NAME: Final = "remote_agent"
DESCRIPTION: Final = (
    "Delegate work to a remote A2A agent and follow it up. Call action=list_targets first to see "
    "the agents. Keep summary.continuation of a result and hand it back unchanged to send, watch, "
    "status or cancel."
)
ACTIONS: Final = ("list_targets", "send", "watch", "status", "cancel")
ROUTING: Final = ("target_alias", "target_url", "task_handle", "continuation", "task_id")
_FOLLOW_UP: Final = (*ROUTING, "timeout_ms", "service_parameters")


def input_schema(aliases: Sequence[str] = ()) -> Schema:
    """One flat object; what an action allows of it is for the rules in `rules`."""
    return {
        "type": "object",
        "properties": _properties(aliases),
        "required": ["action"],
        "additionalProperties": False,
    }


def fields_of(action: str) -> frozenset[str]:
    """What may stand beside `action`."""
    if action == "send":
        return frozenset(_properties(())) - {"action"}
    if action == "status":
        return frozenset(_FOLLOW_UP) | {"history_length"}
    if action in ("watch", "cancel"):
        return frozenset(_FOLLOW_UP)
    return frozenset()


def openai_tool(aliases: Sequence[str] = ()) -> Schema:
    """For `tools` of chat completions."""
    function = {"name": NAME, "description": DESCRIPTION, "parameters": input_schema(aliases)}
    return {"type": "function", "function": function}


def anthropic_tool(aliases: Sequence[str] = ()) -> Schema:
    """For `tools` of the messages API."""
    return {"name": NAME, "description": DESCRIPTION, "input_schema": input_schema(aliases)}


def _text(description: str = "", **more: Any) -> Schema:
    return _described({"type": "string", **more}, description)


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


def _id(description: str = "") -> Schema:
    return _text(description, minLength=1)


def _list(items: Schema, description: str = "", *, least: int = 0) -> Schema:
    schema: Schema = {"type": "array", "items": items}
    return _described({**schema, "minItems": least} if least else schema, description)


def _flag(description: str = "") -> Schema:
    return _described({"type": "boolean"}, description)


def _count(least: int, description: str) -> Schema:
    return {"type": "integer", "minimum": least, "description": description}


def _object(properties: Schema, required: Sequence[str], **more: Any) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required), "additionalProperties": False, **more}


_ANYTHING: Final[Schema] = {"type": "object"}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_HANDLE: Final[Schema] = {"type": "string", "pattern": "^rah_[A-Za-z0-9-]+$"}
_URL: Final[Schema] = {"type": "string", "format": "uri", "pattern": "^https?://"}


def _part() -> Schema:
    metadata = {"metadata": _ANYTHING}
    text = {"kind": {"const": "text"}, "text": {"type": "string"}, **metadata}
    file = {
        "kind": {"const": "file"},
        "uri": {"type": "string", "format": "uri"},
        "bytes": _text("base64"),
        "name": {"type": "string"},
        "mime_type": {"type": "string"},
        **metadata,
    }
    data = {"kind": {"const": "data"}, "data": _ANYTHING, **metadata}
    content = {"anyOf": [{"required": ["uri"]}, {"required": ["bytes"]}]}
    return {
        "oneOf": [
            _object(text, ["kind", "text"]),
            _object(file, ["kind"], **content),
            _object(data, ["kind", "data"]),
        ]
    }


def _continuation() -> Schema:
    target = {
        "target_url": _URL,
        "card_path": _id(),
        "preferred_transports": _list(_id(), least=1),
        "target_alias": _id(),
        "signature": _text("Says that this gateway issued the target; keep it."),
    }
    flags = ("can_resume_send", "can_send", "can_status", "can_cancel", "can_watch")
    task = {
        "task_id": _id(),
        "task_handle": _HANDLE,
        "status": {"type": "string"},
        **{name: {"type": "boolean"} for name in flags},
    }
    conversation = {"context_id": _id(), "can_send": {"const": True}}
    return _object(
        {
            "target": _object(target, ["target_url", "card_path", "preferred_transports"]),
            "task": _object(task, ["task_id"]),
            "conversation": _object(conversation, ["context_id"]),
        },
        ["target"],
        description="summary.continuation of an earlier result, unchanged.",
    )


def _push_config() -> Schema:
    authentication = _object(
        {"schemes": _list(_id(), least=1), "credentials": {"type": "string"}}, ["schemes"]
    )
    fields = {
        "url": {"type": "string", "format": "uri"},
        "id": {"type": "string"},
        "token": {"type": "string"},
        "authentication": authentication,
    }
    return _object(fields, ["url"])


def _properties(aliases: Sequence[str]) -> Schema:
    alias = _text("A configured target; preferred to target_url.")
    if aliases:
        alias["enum"] = list(aliases)
    return {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "target_alias": alias,
        "target_url": {**_URL, "description": "Base URL of an agent, if the policy allows it."},
        "target_tags": _list(_id(), "Choose a configured target that has all these tags.", least=1),
        "skill": _id("Choose a configured target whose card has this skill, by id or name."),
        "parts": _list(_part(), "What to send.", least=1),
        "task_handle": {**_HANDLE, "description": "Handle of a delegated task."},
        "continuation": _continuation(),
        "message_id": _id("Id of the message; made up when absent."),
        "task_id": _id("Id of a task at the remote agent."),
        "context_id": _id("Id of a conversation at the remote agent."),
        "reference_task_ids": _list(_id(), "Tasks to refer to, not to continue.", least=1),
        "task_requirement": _text(
            "required: a plain message is not enough.", enum=["optional", "required"]
        ),
        "follow_updates": _flag("Stream the send and report every update."),
        "wait_timeout_ms": _count(
            1, "Wait so long for the task to end or to ask; then WAIT_TIMEOUT, and it goes on."
        ),
        "cancel_on_abort": _flag("Cancel the remote task when the caller aborts the send."),
        "accepted_output_modes": _list({"type": "string"}, "Media types for the answer."),
        "blocking": _flag("Have the remote agent answer only when its task ends or pauses."),
        "history_length": _count(0, "At most so many messages of history."),
        "timeout_ms": _count(1, "Limit for a request; of a stream, for its silence."),
        "service_parameters": {**_STRINGS, "description": "Headers of the request."},
        "metadata": _ANYTHING,
        "push_notification_config": _push_config(),
    }
