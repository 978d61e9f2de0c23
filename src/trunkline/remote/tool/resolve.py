"""`resolve`: which agent and which task a request means.

A continuation comes first, then a task handle, then alias, URL and the default, in this order.
The target of a continuation is a claim: it leads only where the configuration, the policy, a live
handle or our own signature allows.
"""

import hashlib
import hmac
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trunkline.model.timestamps import format_timestamp
from trunkline.remote.target import TRANSPORTS, Target
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.envelope import continuation_of, target_json
from trunkline.remote.tool.failures import Code, ToolFailure
from trunkline.remote.tool.handles import Expired, HandleRecord, Live, Lookup, Unknown
from trunkline.remote.tool.request import Continuation, ToolRequest


def signature_of(key: bytes, target: Target) -> str:
    """Proves that this gateway issued a continuation to the target.

    Only a target outside the configuration is signed: the configuration lets the others in,
    and an operator closes one by taking it out of there.
    """
    parts = ["remote_agent.target.1", target.url, target.card_path, *target.transports]
    return hmac.new(key, msgspec.json.encode(parts), hashlib.sha256).hexdigest()


def is_signed(key: bytes, signature: str, target: Target) -> bool:
    wanted = signature_of(key, target)
    return bool(key) and hmac.compare_digest(signature.encode(), wanted.encode())


class Route(Struct, frozen=True, kw_only=True):
    target: Target
    task_id: str = ""
    context_id: str = ""
    # The live handle that led here.
    record: HandleRecord | None = None
    # Why this target, if the request did not name it.
    reason: str = ""


def resolve(
    request: ToolRequest, config: ToolConfig, lookup: Lookup, *, key: bytes, is_durable: bool
) -> Route:
    """`lookup` is the result for the handle in the request, if there is one."""
    if request.continuation is not None:
        return _by_continuation(request.continuation, config, lookup, key)
    if request.task_handle:
        return _by_handle(request, config, lookup, is_durable=is_durable)
    target = named_target(request, config) or config.default_target
    if target is None:
        raise _unresolved("no target is named and none is the default", "no_default_target")
    return Route(target=target, task_id=request.task_id, context_id=request.context_id)


def named_target(request: ToolRequest, config: ToolConfig) -> Target | None:
    if request.target_alias:
        target = config.target_named(request.target_alias)
        if target is None:
            message = f'unknown target alias "{request.target_alias}"'
            raise _unresolved(message, "unknown_alias", target_alias=request.target_alias)
        return target
    return _target_at(request.target_url, config) if request.target_url else None


def check_transports(target: Target, *, enforced: bool) -> None:
    unsupported = [name for name in target.transports if name not in TRANSPORTS]
    if not unsupported:
        return
    if enforced:
        message = f"unsupported preferred transport(s) in this build: {', '.join(unsupported)}"
    else:
        available = ",".join(TRANSPORTS)
        message = (
            f"Unknown preferred transport: {unsupported[0]}, available transports: {available}"
        )
    details = {"unsupported": unsupported, "supported": list(TRANSPORTS)}
    raise ToolFailure(Code.REMOTE, message, details)


def is_configured(target: Target, config: ToolConfig) -> bool:
    return any(_identity(target) == _identity(each) for each in config.targets)


def _identity(target: Target) -> tuple[str, ...]:
    return (target.url, target.card_path, *target.transports)


def _target_at(given: str, config: ToolConfig) -> Target:
    url = config.spelling(given)
    matches = [target for target in config.targets if target.url == url]
    if len(matches) > 1:
        raise _ambiguous(given, matches)
    if matches:
        return matches[0]
    if url is None or not config.policy.allow_target_url_override:
        raise _disallowed(given)
    defaults = config.defaults
    return Target(url=url, card_path=defaults.card_path, transports=defaults.transports)


def _target_of(
    source: HandleRecord | Continuation, config: ToolConfig, url: str | None = None
) -> Target:
    """The configured target that is meant, with its settings; else the claimed one."""
    claimed = Target(
        url=url or source.target_url,
        card_path=source.card_path,
        transports=source.transports,
        alias=source.target_alias,
    )
    matches = [target for target in config.targets if target.url == claimed.url]
    for target in matches:
        if _identity(target) == _identity(claimed):
            return target
    for target in matches:
        if target.alias == claimed.alias:
            return target
    if len(matches) > 1:
        raise _ambiguous(claimed.url, matches)
    # The alias is a claim, and must not make an unknown target look configured.
    return matches[0] if matches else replace(claimed, alias="")


def _by_continuation(
    continuation: Continuation, config: ToolConfig, lookup: Lookup, key: bytes
) -> Route:
    url = config.spelling(continuation.target_url)
    if url is None:
        raise _disallowed(continuation.target_url)
    target = _target_of(continuation, config, url)
    check_transports(target, enforced=config.policy.enforce_supported_transports)
    if isinstance(lookup, Live):
        record = lookup.record
        _check_ids(record, continuation)
        _check_target(record, target, config)
        _check_card_path(continuation, target.card_path, record.card_path)
        return _route(record, config, continuation.context_id)
    _check_card_path(continuation, target.card_path)
    if not (
        is_configured(target, config)
        or config.policy.allow_target_url_override
        or is_signed(key, continuation.signature, target)
    ):
        raise _disallowed(continuation.target_url)
    return Route(target=target, task_id=continuation.task_id, context_id=continuation.context_id)


def _check_card_path(continuation: Continuation, *known: str) -> None:
    """The path of the target, or the one that its live handle was issued with.

    A configured target is asked at its own path whatever the continuation says, so one with
    another path was changed, or is older than the configuration.
    """
    if continuation.card_path not in known:
        raise _unresolved(
            f'card_path "{continuation.card_path}" of the continuation is not that of its target',
            "continuation_changed",
            target_url=continuation.target_url,
            card_path=continuation.card_path,
            hint="Hand the continuation back unchanged, or name target_alias and task_id.",
        )


def _by_handle(
    request: ToolRequest, config: ToolConfig, lookup: Lookup, *, is_durable: bool
) -> Route:
    match lookup:
        case Unknown():
            raise _unknown(request.task_handle, is_durable=is_durable)
        case Expired(record):
            raise _expired(record, config, is_durable=is_durable)
        case Live(record):
            _check_ids(record, request)
            explicit = named_target(request, config)
            if explicit is not None:
                _check_target(record, explicit, config)
            return _route(record, config, request.context_id)


def _route(record: HandleRecord, config: ToolConfig, context_id: str) -> Route:
    target = _target_of(record, config)
    # A target that was taken out of the configuration is closed, also for older handles.
    was_configured = bool(record.target_alias) and not target.alias
    if was_configured and not config.policy.allow_target_url_override:
        raise _disallowed(record.target_url)
    return Route(
        target=target,
        task_id=record.task_id,
        context_id=record.context_id or context_id,
        record=record,
    )


def _check_ids(record: HandleRecord, given: ToolRequest | Continuation) -> None:
    """The handle decides; ids beside it must be the same."""
    for name in ("task_id", "context_id"):
        own, explicit = getattr(record, name), getattr(given, name)
        if own and explicit and own != explicit:
            message = f'task_handle "{record.handle}" does not match {name} "{explicit}"'
            details = {f"handle_{name}": own, f"explicit_{name}": explicit}
            raise _mismatch(record, message, **details)


def _check_target(record: HandleRecord, explicit: Target, config: ToolConfig) -> None:
    own = _target_of(record, config)
    if _identity(own) != _identity(explicit):
        message = f'task_handle "{record.handle}" does not match the explicit target'
        details = {"handle_target": target_json(own), "explicit_target": target_json(explicit)}
        raise _mismatch(record, message, **details)


def _mismatch(record: HandleRecord, message: str, **details: Any) -> ToolFailure:
    return ToolFailure(Code.VALIDATION, message, {"task_handle": record.handle, **details})


def _unresolved(message: str, reason: str, **details: Any) -> ToolFailure:
    more = {"reason": reason, **details, "suggested_action": "list_targets"}
    return ToolFailure(Code.TARGET_RESOLUTION, message, more)


def _ambiguous(url: str, matches: list[Target]) -> ToolFailure:
    return _unresolved(
        f'target URL "{url}" matches several configured targets; name one by target_alias',
        "ambiguous_normalized_url_matches",
        target_url=url,
        target_aliases=[target.alias for target in matches],
    )


def _disallowed(url: str) -> ToolFailure:
    return _unresolved(
        f'target URL "{url}" is not a configured target, and the policy allows no other',
        "raw_url_disallowed_by_policy",
        target_url=url,
        hint="Use a configured target, or have policy.allowTargetUrlOverride enabled.",
    )


def _unknown(handle: str, *, is_durable: bool) -> ToolFailure:
    hint = (
        "Retry with explicit target plus taskId, or resend the original request after a restart "
        "to obtain a new handle."
    )
    details = {
        "taskHandle": handle,
        "retryHint": hint,
        "restartInvalidatesHandles": not is_durable,
        "suggested_action": "send",
    }
    return ToolFailure(Code.UNKNOWN_TASK_HANDLE, f'task handle "{handle}" is unknown', details)


def _expired(record: HandleRecord, config: ToolConfig, *, is_durable: bool) -> ToolFailure:
    details = {
        "taskHandle": record.handle,
        "retryHint": (
            "Retry with the same nested continuation so the plugin can fall back to the persisted "
            "target plus taskId, or resend the original request after a restart to obtain a new "
            "handle."
        ),
        "restartInvalidatesHandles": not is_durable,
        "expiresAt": format_timestamp(record.expires_at_ms),
        "task_id": record.task_id,
        **({"context_id": record.context_id} if record.context_id else {}),
        "continuation": continuation_of(
            _target_of(record, config),
            task_id=record.task_id,
            task_handle=record.handle,
            context_id=record.context_id,
        ),
        "suggested_actions": ["status", "send"],
        "hint": (
            "Retry with the same nested continuation, or use flat target_alias + task_id only as "
            "manual compatibility."
        ),
    }
    message = f'task handle "{record.handle}" has expired'
    return ToolFailure(Code.EXPIRED_TASK_HANDLE, message, details)
