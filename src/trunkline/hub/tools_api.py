"""`ToolsApi`: the tools of programs over HTTP, one route for each, below `/api/v1/tools`.

The credential is the token of a turn (`ports.tools.ToolTokens`), and no other: it says which agent
asks, on whose behalf and in which session.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request

from trunkline.api.api import Call, Route
from trunkline.api.input import violation
from trunkline.engine.agent_calls import CallRefused
from trunkline.model.errors import (
    CallerError,
    Conflict,
    FieldViolation,
    InvalidParams,
    ParseFailed,
    PermissionDenied,
    RouteNotFound,
    TrunklineError,
    Unauthenticated,
    Unavailable,
)
from trunkline.ports.tools import ProgramTools, ToolDefinition, ToolTokens
from trunkline.protocol.limits import check_json

# The arguments beside the input, and the space of a pretty form.
ROOM_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 64
_RETRY_AFTER_S: Final = 5
_BEARER: Final = "bearer "
_decode = msgspec.json.Decoder(dict[str, Any]).decode

# By the code of a refusal; all others are faults of the arguments.
_ERRORS: Final[dict[str, type[CallerError]]] = {
    "not_found": RouteNotFound,
    "skill_not_found": RouteNotFound,
    "policy_denied": PermissionDenied,
    "return_to_refused": PermissionDenied,
    "caller_unknown": PermissionDenied,
    "self_call_blocked": PermissionDenied,
    "call_cycle": PermissionDenied,
    "too_many_hops": PermissionDenied,
    "too_deep": PermissionDenied,
    "session_ended": Conflict,
}


class ToolsApi:
    def __init__(
        self,
        tokens: ToolTokens,
        definitions: Sequence[ToolDefinition],
        *,
        max_body_bytes: Callable[[], int],
    ) -> None:
        self._tokens = tokens
        self._definitions = definitions
        self._max_body_bytes = max_body_bytes

    def routes(self) -> Iterator[Route]:
        for definition in self._definitions:
            yield Route(
                method="POST",
                path=f"/tools/{definition.name}",
                name=definition.name,
                summary=f"{definition.title}: a tool for the program of an agent.",
                description=definition.description,
                handle=partial(self._use, definition.name),
                authorize=self._tools,
                body=dict[str, Any],
                body_schema=(f"{_camel(definition.name)}Arguments", definition.input_schema),
                decoder=_arguments,
                max_body_bytes=self._max_body_bytes,
                result=dict[str, Any],
            )

    async def _tools(self, request: Request) -> ProgramTools:
        # Two credentials are none, whichever of them a proxy in front has checked.
        given = ", ".join(request.headers.getlist("authorization"))
        if given[: len(_BEARER)].lower() != _BEARER:
            raise Unauthenticated(
                "This address needs the token of a turn: send it as 'Authorization: Bearer TOKEN'"
            )
        return await self._tokens.find(given[len(_BEARER) :].strip())

    async def _use(self, name: str, call: Call) -> dict[str, Any]:
        tools: ProgramTools = call.authorized
        try:
            return await tools.call(name, call.body)
        except CallRefused as refused:
            raise error_of(refused) from refused


def error_of(refused: CallRefused) -> TrunklineError:
    """The error of HTTP for a call that was refused; the code of the refusal is in its metadata."""
    metadata = {"code": refused.code}
    cause = refused.__cause__
    if isinstance(cause, CallerError | Unavailable):
        # The called agent, or the gateway, takes no message now.
        cause.metadata |= metadata
        return cause
    if refused.code == "call_failed":
        return Unavailable(refused.text, retry_after_s=_RETRY_AFTER_S)
    if refused.code in _ERRORS:
        return _ERRORS[refused.code](refused.text, metadata=metadata)
    field = refused.argument
    violations = (FieldViolation(field, refused.text),) if field else ()
    return InvalidParams(refused.text, violations=violations, metadata=metadata)


def _arguments(body: bytes) -> dict[str, Any]:
    check_json(body, max_depth=MAX_DEPTH)
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        raise violation(error) from None
    except (msgspec.DecodeError, ValueError):
        raise ParseFailed("The body is not JSON") from None


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
