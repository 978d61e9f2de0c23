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
_FOLLOW_UP: Final = frozenset({*ROUTING, "timeout_ms", "service_parameters"})
_FIELDS: Final = {
    "status": _FOLLOW_UP | {"history_length"},
    "watch": _FOLLOW_UP,
    "cancel": _FOLLOW_UP,
}


def input_schema(aliases: Sequence[str] = ()) -> Schema:
    """One flat object; `validation` has the rules for the fields of each action."""
    return closed_object(_properties(aliases), ["action"])


def fields_of(action: str) -> frozenset[str]:
    """The fields that are allowed beside `action`."""
    if action == "send":
        return frozenset(_properties(())) - {"action"}
    return _FIELDS.get(action, frozenset())


def openai_tool(aliases: Sequence[str] = ()) -> Schema:
    """For `tools` of chat completions."""
    function = {"name": NAME, "description": DESCRIPTION, "parameters": input_schema(aliases)}
    return {"type": "function", "function": function}


def anthropic_tool(aliases: Sequence[str] = ()) -> Schema:
    """For `tools` of the messages API."""
    return {"name": NAME, "description": DESCRIPTION, "input_schema": input_schema(aliases)}


def of_type(kind: str, description: str = "", **more: Any) -> Schema:
    schema: Schema = {"type": kind, **more}
    return {**schema, "description": description} if description else schema


def id_of(description: str = "") -> Schema:
    return of_type("string", description, minLength=1)


def _ids(description: str = "") -> Schema:
    return of_type("array", description, items=id_of(), minItems=1)


def closed_object(properties: Schema, required: Sequence[str], **more: Any) -> Schema:
    """An object without any other property."""
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required), "additionalProperties": False, **more}


ANYTHING: Final[Schema] = {"type": "object"}
_STRINGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_HANDLE: Final[Schema] = {"type": "string", "pattern": "^rah_[A-Za-z0-9-]+$"}
URL: Final[Schema] = {"type": "string", "format": "uri", "pattern": "^https?://"}


def _part() -> Schema:
    metadata = {"metadata": ANYTHING}
    text = {"kind": {"const": "text"}, "text": {"type": "string"}, **metadata}
    file = {
        "kind": {"const": "file"},
        "uri": {"type": "string", "format": "uri"},
        "bytes": of_type("string", "base64"),
        "name": {"type": "string"},
        "mime_type": {"type": "string"},
        **metadata,
    }
    data = {"kind": {"const": "data"}, "data": ANYTHING, **metadata}
    content = {"anyOf": [{"required": ["uri"]}, {"required": ["bytes"]}]}
    return {
        "oneOf": [
            closed_object(text, ["kind", "text"]),
            closed_object(file, ["kind"], **content),
            closed_object(data, ["kind", "data"]),
        ]
    }


def _continuation() -> Schema:
    target = {
        "target_url": URL,
        "card_path": id_of(),
        "preferred_transports": _ids(),
        "target_alias": id_of(),
        "signature": of_type("string", "Says that this gateway issued the target; keep it."),
    }
    flags = ("can_resume_send", "can_send", "can_status", "can_cancel", "can_watch")
    task = {
        "task_id": id_of(),
        "task_handle": _HANDLE,
        "status": {"type": "string"},
        **{name: {"type": "boolean"} for name in flags},
    }
    conversation = {"context_id": id_of(), "can_send": {"const": True}}
    return closed_object(
        {
            "target": closed_object(target, ["target_url", "card_path", "preferred_transports"]),
            "task": closed_object(task, ["task_id"]),
            "conversation": closed_object(conversation, ["context_id"]),
        },
        ["target"],
        description="summary.continuation of an earlier result, unchanged.",
    )


def _push_config() -> Schema:
    authentication = closed_object(
        {"schemes": _ids(), "credentials": {"type": "string"}},
        ["schemes"],
    )
    fields = {
        "url": {"type": "string", "format": "uri"},
        "id": {"type": "string"},
        "token": {"type": "string"},
        "authentication": authentication,
    }
    return closed_object(fields, ["url"])


def _properties(aliases: Sequence[str]) -> Schema:
    alias = of_type("string", "A configured target; preferred to target_url.")
    if aliases:
        alias["enum"] = list(aliases)
    return {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "target_alias": alias,
        "target_url": {**URL, "description": "Base URL of an agent, if the policy allows it."},
        "target_tags": _ids("Choose a configured target that has all these tags."),
        "skill": id_of("Choose a configured target whose card has this skill, by id or name."),
        "parts": of_type("array", "What to send.", items=_part(), minItems=1),
        "task_handle": {**_HANDLE, "description": "Handle of a delegated task."},
        "continuation": _continuation(),
        "message_id": id_of("Id of the message; made up when absent."),
        "task_id": id_of("Id of a task at the remote agent."),
        "context_id": id_of("Id of a conversation at the remote agent."),
        "reference_task_ids": _ids("Tasks to refer to, not to continue."),
        "task_requirement": of_type(
            "string", "required: a plain message is not enough.", enum=["optional", "required"]
        ),
        "follow_updates": of_type("boolean", "Stream the send and report every update."),
        "wait_timeout_ms": of_type(
            "integer",
            "Wait so long for the task to end or to ask; then WAIT_TIMEOUT, and it goes on.",
            minimum=1,
        ),
        "cancel_on_abort": of_type(
            "boolean", "Cancel the remote task when the caller aborts the send."
        ),
        "accepted_output_modes": of_type(
            "array", "Media types for the answer.", items={"type": "string"}
        ),
        "blocking": of_type(
            "boolean", "Have the remote agent answer only when its task ends or pauses."
        ),
        "history_length": of_type("integer", "At most so many messages of history.", minimum=0),
        "timeout_ms": of_type(
            "integer", "Limit for a request; of a stream, for its silence.", minimum=1
        ),
        "service_parameters": {**_STRINGS, "description": "Headers of the request."},
        "metadata": ANYTHING,
        "push_notification_config": _push_config(),
    }
