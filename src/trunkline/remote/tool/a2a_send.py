"""`a2a_send`: one message to one agent, for models that need no more of `remote_agent`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trunkline.ports.tools import OnUpdate, Signal
from trunkline.remote.tool import envelope, schema
from trunkline.remote.tool.ajv import Error, ajv_error, errors_of
from trunkline.remote.tool.envelope import Envelope
from trunkline.remote.tool.failures import ToolFailure
from trunkline.remote.tool.remote_agent import RemoteAgentTool
from trunkline.remote.tool.validation import as_json

NAME: Final = "a2a_send"
DESCRIPTION: Final = (
    "Send a message to a remote A2A agent and get its answer. To go on with a conversation or a "
    "task, pass the context_id or the task_id of summary.continuation."
)
_NOBODY: Final = "a2a_send requires agent, url, or a configured default target"
# Fields of this tool → fields of `remote_agent`.
_FIELDS: Final = {
    "agent": "target_alias",
    "url": "target_url",
    "context_id": "context_id",
    "task_id": "task_id",
    "metadata": "metadata",
    "timeout_ms": "timeout_ms",
    "wait": "blocking",
}
_OURS: Final = {f"/{theirs}": f"/{ours}" for ours, theirs in _FIELDS.items()}


def input_schema(aliases: Sequence[str] = ()) -> schema.Schema:
    agent = schema.id_of("Name of the agent.") | ({"enum": list(aliases)} if aliases else {})
    url = "URL of an agent without a name, where the policy allows it."
    properties = {
        "agent": agent,
        "url": schema.URL | {"description": url},
        "message": schema.id_of("What to say."),
        "data": schema.of_type("object", "Structured data beside the message."),
        "context_id": schema.id_of("The conversation to go on with."),
        "task_id": schema.id_of("The task to go on with."),
        "metadata": schema.ANYTHING,
        "wait": schema.of_type(
            "boolean", "false: return as soon as there is a task. Default: true."
        ),
        "timeout_ms": {"type": "integer", "minimum": 1},
    }
    return schema.closed_object(properties, ["message"])


class A2aSend:
    """`await tool(request)`. Targets, limits and errors are those of `remote_agent`."""

    def __init__(self, remote_agent: RemoteAgentTool) -> None:
        self._remote_agent = remote_agent

    async def __call__(
        self, request: object, *, on_update: OnUpdate | None = None, signal: Signal | None = None
    ) -> Envelope:
        try:
            given = as_json(request)
            errors = self._problems(given)
            if errors or not isinstance(given, Mapping):
                raise envelope.invalid(errors)
        except ToolFailure as failure:
            return _named(envelope.failure("send", failure))
        # This tool gives one answer and no updates.
        return _named(await self._remote_agent(_translated(given), signal=signal))

    def _problems(self, given: object) -> list[Error]:
        config = self._remote_agent.config
        errors = errors_of(input_schema(config.aliases), given)
        if errors or not isinstance(given, Mapping):
            return errors
        if not ({"agent", "url"} & given.keys()) and config.default_target is None:
            return [ajv_error("anyOf", "", "#/runtime/anyOf", {}, _NOBODY)]
        return []


def _translated(given: Mapping[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"kind": "text", "text": given["message"]}]
    if "data" in given:
        parts.append({"kind": "data", "data": given["data"]})
    fields = {theirs: given[ours] for ours, theirs in _FIELDS.items() if ours in given}
    return {"action": "send", "parts": parts, **fields}


def _named(result: Envelope) -> Envelope:
    """The envelope with the name and the field names of this tool."""
    result = result | {"operation": NAME}
    details = result.get("error", {}).get("details", {})
    if details.get("source") == "ajv":
        errors = [
            each | {"instancePath": _OURS.get(each["instancePath"], each["instancePath"])}
            for each in details["errors"]
        ]
        error = result["error"] | {
            "message": f"{NAME} input validation failed",
            "details": details | {"tool": NAME, "errors": errors},
        }
        result["error"] = error
    return result
