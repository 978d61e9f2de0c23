"""The style of OpenClaw's A2A plugins: their errors, routes, cards and objects of A2A 0.3.

Some clients read the errors as the inbound plugin words them. Where the plugin would answer with
a failure of its own, such as an internal error for a missing field, the response here says what
is wrong with the request. Each table has the value of the profile's key that chooses a style.
"""

from typing import Final

import msgspec
from msgspec import structs

from trunkline.model.calls import SendMessageRequest
from trunkline.model.errors import (
    Case,
    ContentTypeNotSupported,
    InvalidParams,
    MethodNotFound,
    TaskNotCancelable,
    TrunklineError,
    UnsupportedOperation,
    WrongMediaType,
    file_part_refused,
)
from trunkline.model.values import Message, Part, TaskArtifactUpdateEvent, TaskState
from trunkline.protocol import errors, protojson, protojson_fields
from trunkline.protocol import v03_types as v03
from trunkline.protocol.cards import Shape
from trunkline.protocol.jsonrpc import Error, ErrorStyle
from trunkline.protocol.v03 import V03Dialect
from trunkline.protocol.v03_reading import Reader03, read_configuration, read_role
from trunkline.protocol.v03_writing import Writer03
from trunkline.protocol.versions import Version

# The plugin also sends `connection`, which the server of the gateway sets itself.
STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


# Code and text of each case that OpenClaw knows, which is narrower than the class of its error. The
# names in the texts are keys of the error's metadata.
_CASES: Final = {
    Case.NOT_JSONRPC: (-32600, "Invalid JSON-RPC Request."),
    Case.EMPTY_BODY: (-32600, "Invalid JSON-RPC Request."),
    Case.PARAMS: (-32602, "Invalid method parameters."),
    Case.FILE_PART: (
        -32602,
        "message.parts[{part}].kind=file is not supported; "
        "inbound A2A requests only accept text and data parts.",
    ),
    Case.OTHER_CONTEXT: (
        -32600,
        "Task {taskId} is bound to contextId {contextId}, not {givenContextId}.",
    ),
    Case.MESSAGE_TO_ENDED_TASK: (
        -32600,
        "Task {taskId} is in a terminal state ({state}) and cannot be modified.",
    ),
    Case.NO_EXTENDED_CARD: (
        -32004,
        "Unsupported operation: Agent does not support authenticated extended card.",
    ),
}


def error_of(error: Exception, version: Version) -> Error:
    if isinstance(error, TrunklineError) and error.case in _CASES:
        code, text = _CASES[error.case]
        return Error(code, text.format_map(_facts(error)))
    match error:
        case WrongMediaType():
            return Error(-32700, "Invalid request body type.")
        case MethodNotFound():
            return Error(-32601, f"Method not found: {error.metadata.get('method', '')}")
        case InvalidParams():
            return Error(-32602, _sentence(error))
        case ContentTypeNotSupported() if "availableOutputModes" in error.metadata:
            modes = ("acceptedOutputModes", "availableOutputModes")
            return Error(-32005, error.message, {name: _list(error, name) for name in modes})
        case UnsupportedOperation():
            return Error(-32004, f"Unsupported operation: {error.message}")
        case TaskNotCancelable():
            return Error(-32002, f"Task not cancelable: {error.metadata.get('taskId', '')}")
        case _:
            return Error(errors.jsonrpc_code(error, version), errors.message(error))


def http_status(error: Exception) -> int:
    # The plugin answers a body of the wrong type with 200, like any other mistake of a caller.
    return 200 if isinstance(error, WrongMediaType) else errors.http_status_for_jsonrpc(error)


def _list(error: TrunklineError, name: str) -> list[str]:
    return [item for item in error.metadata.get(name, "").split(", ") if item]


def _facts(error: TrunklineError) -> dict[str, str]:
    facts = dict(error.metadata)
    if "state" in facts:
        facts["state"] = v03.STATE_NAMES[TaskState(facts["state"])]
    return facts


def _sentence(error: InvalidParams) -> str:
    if len(error.violations) != 1:
        return error.message
    field, description = error.violations[0].field, error.violations[0].description
    glue = " " if description.startswith(("is ", "must ")) else ": "
    return f"{field}{glue}{description}."


def not_running(account_id: str) -> bytes:
    """The body of status 503."""
    message = "The requested A2A inbound account is not running."
    return _envelope("A2A_ACCOUNT_NOT_RUNNING", message, account_id)


def not_found(account_id: str) -> bytes:
    """The body of status 404."""
    return _envelope(
        "A2A_ROUTE_NOT_FOUND", "No A2A inbound route matched this request.", account_id
    )


def _envelope(code: str, message: str, account_id: str) -> bytes:
    details = {"channel": "a2a", "accountId": account_id}
    return msgspec.json.encode({"error": {"code": code, "message": message, "details": details}})


ERROR_STYLES: Final = {
    "openclaw-inbound": ErrorStyle(
        error=error_of,
        http_status=http_status,
        is_in_stream=True,
        event_name="error",
        stream_headers=STREAM_HEADERS,
        takes_notifications=True,
        checks_params=True,
        hides_push=True,
        not_found=not_found,
        not_running=not_running,
    )
}

CARD_SHAPES: Final = {
    "openclaw-inbound": Shape(
        state_transition_history=False,
        repeats_interface=True,
        denies_extended_card=False,
        repeats_modes=True,
        has_gateway_version=True,
    ),
    "openclaw-design": Shape(
        state_transition_history=True, names_authentication=True, shortens_modes=True
    ),
}


class TerseWriter03(Writer03):
    """Leaves `append` and `lastChunk` out where they say nothing, as OpenClaw's channel does."""

    def artifact_update(self, event: TaskArtifactUpdateEvent) -> v03.ArtifactUpdate:
        whole = super().artifact_update(event)
        return structs.replace(whole, append=event.append or None, last_chunk=event.last_chunk)


WRITERS: Final = {"numbered": TerseWriter03}


_KINDS: Final = ("text", "data", "file")


class LenientDialect(V03Dialect):
    """Ignores parts of an unknown kind or of none, and push configurations.

    A message without other parts becomes one of a blank text, which admission answers.
    """

    def __init__(self, reader: Reader03, writer: Writer03, *, refuses_files: bool) -> None:
        super().__init__(reader, writer)
        self._refuses_files = refuses_files

    def decode_send(self, params: bytes) -> SendMessageRequest:
        request = protojson.decode(params, v03.LooseSend)
        message, configuration = request.message, request.configuration
        # The plugin refuses files before it looks at anything else, such as a missing id.
        for index, part in enumerate(message.parts):
            if self._refuses_files and part.get("kind") == "file":
                raise file_part_refused(index)
        if not message.message_id:
            raise InvalidParams.at("message.messageId", "is required")
        parts = tuple(
            [
                self.reader.part(
                    protojson_fields.read(part, v03.Part, f"message.parts[{index}]"),
                    f"message.parts[{index}]",
                )
                for index, part in enumerate(message.parts)
                if part.get("kind") in _KINDS
            ]
        )
        if configuration is not None:
            configuration = structs.replace(
                configuration, push_notification_config=None, push_notification=None
            )
        return SendMessageRequest(
            message=Message(
                message_id=message.message_id,
                context_id=message.context_id,
                task_id=message.task_id,
                role=read_role(message.role, "message.role"),
                parts=parts or (Part(text=""),),
                metadata=message.metadata,
                extensions=message.extensions,
                reference_task_ids=message.reference_task_ids,
            ),
            configuration=None if configuration is None else read_configuration(configuration),
            metadata=request.metadata,
        )


LENIENT_DIALECTS: Final = {"openclaw-inbound": LenientDialect}
