"""Rules beyond the schema: which fields go with which action, and with each other."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from trunkline.remote.target import HEADER_NAME
from trunkline.remote.tool.ajv import Error, ajv_error, errors_of, pointer
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.envelope import invalid
from trunkline.remote.tool.schema import fields_of, input_schema

Request = Mapping[str, Any]

# Fields that a continuation replaces.
_SAID_BY_CONTINUATION: Final = (
    "task_handle",
    "task_id",
    "context_id",
    "target_alias",
    "target_url",
    "target_tags",
    "skill",
)
# RFC 9110, 5.5. A line break in here would write headers, or a whole request, of its own.
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_NEEDS_SEND_TARGET: Final = (
    "send requires task_handle, target_alias, target_url, or a configured default target"
)


def as_json(request: object) -> object:
    """The request as plain JSON values, whatever Python objects the caller passed."""
    try:
        plain: object = msgspec.json.decode(msgspec.json.encode(request))
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):
        what = "must be JSON, with valid Unicode"
        raise invalid([_broken("type", "", what, type="object")]) from None
    return plain


def problems_of(request: object, config: ToolConfig) -> list[Error]:
    """All errors of the schema; if there are none, all errors of the rules."""
    errors = errors_of(input_schema(config.aliases), request)
    if errors or not isinstance(request, Mapping):
        return errors
    return list(_rules(request, config))


def action_of(request: object) -> str:
    """The action in the envelope, however invalid the request is."""
    action = request.get("action") if isinstance(request, Mapping) else None
    return action if isinstance(action, str) and action else "unknown"


def _broken(keyword: str, path: str, message: str, **params: Any) -> Error:
    return ajv_error(keyword, path, f"#/runtime/{keyword}", params, message)


def _rules(request: Request, config: ToolConfig) -> Iterator[Error]:
    action = request["action"]
    for name in request:
        if name != "action" and name not in fields_of(action):
            message = f'"{name}" is not supported for action={action}'
            yield _broken("not", "", message, property=name, action=action)
    if action == "list_targets":
        return
    for name, value in request.get("service_parameters", {}).items():
        if not HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            where = pointer("/service_parameters", name)
            yield _broken("format", where, "must be a valid HTTP header", format="header")
    if "continuation" in request:
        for name in _SAID_BY_CONTINUATION:
            if name in request and name in fields_of(action):
                message = f'action={action} does not allow "{name}" when continuation is present'
                yield _broken("not", f"/{name}", message, property=name, action=action)
    yield from _target_rules(request, config)
    if action == "send":
        yield from _send_rules(request, config)
    else:
        yield from _follow_up_rules(request, config)


def _target_rules(request: Request, config: ToolConfig) -> Iterator[Error]:
    alias, url = request.get("target_alias"), request.get("target_url")
    if alias is not None and config.target_named(alias) is None:
        yield _broken("enum", "/target_alias", "must match a configured target alias")
    # The alias wins where both are given, so the URL does not matter.
    if url is not None and alias is None and not _may_route_to(url, config):
        message = "must resolve to a configured target or be allowed by policy"
        yield _broken("anyOf", "/target_url", message)


def _may_route_to(url: str, config: ToolConfig) -> bool:
    spelled = config.spelling(url)
    if spelled is None:
        return False
    known = any(target.url == spelled for target in config.targets)
    return known or config.policy.allow_target_url_override


def _send_rules(request: Request, config: ToolConfig) -> Iterator[Error]:
    if "parts" not in request:
        yield _broken("required", "", "send requires parts", missingProperty="parts")
    for index, part in enumerate(request.get("parts", ())):
        if part["kind"] == "file" and "uri" not in part and not _is_base64(part["bytes"]):
            yield _broken("format", f"/parts/{index}/bytes", "must be base64", format="byte")
    if request.get("follow_updates") is True:
        for name in ("blocking", "wait_timeout_ms"):
            if name in request:
                message = f"send does not allow {name} when follow_updates=true"
                yield _broken("not", f"/{name}", message, property=name)
    continuation = request.get("continuation")
    if continuation is not None:
        if "task" not in continuation and "conversation" not in continuation:
            message = (
                "send requires continuation.task, continuation.conversation, or both "
                "when continuation is present"
            )
            yield _broken("anyOf", "/continuation", message)
        return
    choosing = [name for name in ("target_tags", "skill") if name in request]
    if {"target_alias", "target_url", "task_handle"} & request.keys():
        for name in choosing:
            message = f'send does not allow "{name}" when a target is named'
            yield _broken("not", f"/{name}", message, property=name)
    elif not choosing and config.default_target is None:
        yield _broken("anyOf", "", _NEEDS_SEND_TARGET)


def _follow_up_rules(request: Request, config: ToolConfig) -> Iterator[Error]:
    action, continuation = request["action"], request.get("continuation")
    if continuation is not None:
        if "task" not in continuation:
            message = f"{action} requires continuation.task.task_id when continuation is present"
            yield _broken("required", "/continuation", message, missingProperty="task")
        return
    if "task_handle" in request:
        return
    if "task_id" not in request:
        yield _broken("anyOf", "", f"{action} requires task_handle or task_id")
    elif not {"target_alias", "target_url"} & request.keys() and config.default_target is None:
        message = (
            f"{action} requires target_alias, target_url, or a configured default target "
            "when task_id is used without task_handle"
        )
        yield _broken("anyOf", "", message)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
