"""`refusal`: the errors of the HTTP interface in its OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from trunkline.api.input import JSON

Json: TypeAlias = dict[str, Any]

# Where the document has its types.
TYPES: Final = "#/components/schemas/"
ERRORS: Final[Mapping[int, str]] = {
    400: "A parameter or the body is wrong. `details` names the fields.",
    401: "There is no credential, or it is unknown, expired or revoked.",
    403: "The credential does not allow this.",
    404: "Nothing of this name exists, or the caller may not know of it.",
    405: "The address takes other methods; `Allow` has them.",
    408: "The body came too slowly.",
    409: "What the request assumes has changed meanwhile, or the name is taken.",
    412: "The thing has changed since the version in `If-Match`.",
    413: "The body is larger than 256 KB, a form larger than 16 KB, or the input of a tool "
    "than it may be.",
    415: "The body has another media type.",
    429: "There were too many requests; try again after `Retry-After` seconds.",
    500: "The gateway is at fault.",
    502: "The connection to the agent was lost while it worked.",
    503: "The gateway cannot serve this at the moment; try again after `Retry-After` seconds.",
}

_TEXT: Final[Json] = {"type": "string"}
# A google.rpc.Status, as `protocol.rest.error` writes it.
SCHEMAS: Final[Json] = {
    "Error": {
        "title": "Error",
        "description": "Every error, in the form that the HTTP+JSON binding of A2A 1.0 has.",
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"$ref": f"{TYPES}ErrorStatus", "description": "What went wrong."}},
    },
    "ErrorStatus": {
        "title": "ErrorStatus",
        "description": "A `google.rpc.Status`.",
        "type": "object",
        "required": ["code", "status", "message", "details"],
        "properties": {
            "code": {"type": "integer", "description": "The status of HTTP."},
            "status": {**_TEXT, "description": "The code of google.rpc, such as `NOT_FOUND`."},
            "message": {**_TEXT, "description": "The reason, for people."},
            "details": {
                "type": "array",
                "items": {"$ref": f"{TYPES}ErrorDetail"},
                "description": "The reason, for programs, and the fields that are wrong.",
            },
        },
    },
    "ErrorDetail": {
        "title": "ErrorDetail",
        "description": "A `google.rpc.ErrorInfo`, or a `google.rpc.BadRequest` with the fields.",
        "type": "object",
        "required": ["@type"],
        "properties": {
            "@type": {**_TEXT, "description": "Which of them it is."},
            "reason": {**_TEXT, "description": "A fixed word, such as `INVALID_PARAMS`."},
            "domain": {**_TEXT, "description": "Who has defined the reason."},
            "metadata": {
                "type": "object",
                "additionalProperties": _TEXT,
                "description": "Values that belong to the reason.",
            },
            "fieldViolations": {
                "type": "array",
                "items": {"$ref": f"{TYPES}ErrorField"},
                "description": "The fields of the request that are wrong.",
            },
        },
    },
    "ErrorField": {
        "title": "ErrorField",
        "description": "A field of the request that is wrong.",
        "type": "object",
        "required": ["field", "description"],
        "properties": {
            "field": {**_TEXT, "description": "Its name, as the client wrote it."},
            "description": {**_TEXT, "description": "What is wrong with it."},
        },
    },
}
_RETRY_AFTER: Final[Json] = {
    "description": "Seconds after which to try again.",
    "schema": {"type": "integer", "minimum": 0},
}
_HEADERS: Final[Mapping[int, Json]] = {
    401: {
        "WWW-Authenticate": {
            "description": "The challenge of RFC 6750.",
            "schema": {"type": "string"},
        }
    },
    405: {"Allow": {"description": "The methods of the address.", "schema": {"type": "string"}}},
    429: {"Retry-After": _RETRY_AFTER},
    503: {"Retry-After": _RETRY_AFTER},
}


def refusal(status: int) -> Json:
    found: Json = {"description": ERRORS.get(status, "The request was refused.")}
    if status in _HEADERS:
        found["headers"] = _HEADERS[status]
    return {**found, "content": {JSON: {"schema": {"$ref": f"{TYPES}Error"}}}}
