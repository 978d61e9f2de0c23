"""`match`: the operation of a method and path of the HTTP+JSON binding (A2A 1.0, 11.3)."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from trunkline.model.calls import Operation
from trunkline.model.errors import RouteNotFound, WrongHttpMethod
from trunkline.protocol.versions import Version
from trunkline.protocol.versions import unstated as version_not_supported


class Route(Struct, frozen=True, kw_only=True):
    operation: Operation
    version: Version
    tenant: str = ""
    task_id: str = ""
    config_id: str = ""
    # The methods that this path knows, for the Allow header.
    allow: str = ""


_CONFIGS: Final = "pushNotificationConfigs"
_V03_PREFIX: Final = "v1"

# A tenant of such a name would hide a route of 1.0 or of 0.3.
RESERVED_TENANTS: Final = frozenset(
    {
        _V03_PREFIX,
        "tasks",
        "message:send",
        "message:stream",
        "extendedAgentCard",
        "card",
        "agent-card.json",
        ".well-known",
    }
)


class _Path(Struct, frozen=True, kw_only=True):
    verbs: dict[str, Operation]
    task_id: str = ""
    config_id: str = ""


_COMMON: Final = {
    "message:send": _Path(verbs={"POST": Operation.SEND_MESSAGE}),
    "message:stream": _Path(verbs={"POST": Operation.SEND_STREAMING_MESSAGE}),
    "tasks": _Path(verbs={"GET": Operation.LIST_TASKS}),
}
_CARD: Final = _Path(verbs={"GET": Operation.GET_EXTENDED_AGENT_CARD})
_FIXED: Final = {
    Version.V1_0: _COMMON | {"extendedAgentCard": _CARD},
    Version.V0_3: _COMMON | {"card": _CARD},
}
_TASK_VERBS: Final = {
    "cancel": {"POST": Operation.CANCEL_TASK},
    # A2A 1.0, 11.3 says POST, the proto of the specification says GET.
    "subscribe": {"GET": Operation.SUBSCRIBE_TO_TASK, "POST": Operation.SUBSCRIBE_TO_TASK},
}
_ALL_CONFIGS: Final = {
    "GET": Operation.LIST_PUSH_CONFIGS,
    "POST": Operation.CREATE_PUSH_CONFIG,
}
_ONE_CONFIG: Final = {
    "GET": Operation.GET_PUSH_CONFIG,
    "DELETE": Operation.DELETE_PUSH_CONFIG,
}


def match(
    method: str,
    path: str,
    *,
    stated: Version | None,
    only: Version | None = None,
    unstated: Version | None = None,
) -> Route:
    """The route of `path`, which is percent-encoded and relative to the interface url.

    Without a stated version, `unstated` decides, else the path: a path below `/v1` is of 0.3.
    `only` is the version of an agent that speaks no other. Raises RouteNotFound, WrongHttpMethod,
    and VersionNotSupported for a request of 0.3 that states no version.
    """
    wanted = only or stated or unstated
    # The segments are unescaped after the split, so that a tenant or an id may hold a slash.
    segments = [unquote(segment) for segment in path.removeprefix("/").split("/")]
    if segments[0] == _V03_PREFIX:
        if wanted is Version.V1_0:
            rest = "/".join(segments[1:])
            remedy = "/extendedAgentCard" if rest == "card" else f"/{rest}"
            if only is not None and stated is None:
                raise version_not_supported(only, f" and call {remedy[:128]}")
            raise _other_version(path, "0.3", remedy, only, stated)
        return _route(method, path, Version.V0_3, segments[1:], "")
    if unstated is Version.V0_3 and only is Version.V1_0 and stated is None:
        raise version_not_supported(only, "")
    tenant = _tenant(method, segments)
    if tenant:
        segments = segments[1:]
    if wanted is Version.V0_3 and _find(Version.V1_0, segments) is not None:
        rest = "/".join(segments)
        rest = "card" if rest == "extendedAgentCard" else rest
        raise _other_version(path, "1.0", f"/{_V03_PREFIX}/{rest}", only, stated)
    return _route(method, path, Version.V1_0, segments, tenant)


def _tenant(method: str, segments: Sequence[str]) -> str:
    """The first segment, where the rest is a known path and the whole is not."""
    found = _find(Version.V1_0, segments)
    if found is not None and method in found.verbs:
        return ""
    name, below = segments[0], _find(Version.V1_0, segments[1:])
    if not name or below is None or (found is not None and method not in below.verbs):
        return ""
    if name in RESERVED_TENANTS:
        raise RouteNotFound(f'"{name}" is a reserved name and cannot be a tenant')
    return name


def _route(method: str, path: str, version: Version, segments: Sequence[str], tenant: str) -> Route:
    found = _find(version, segments)
    if found is None:
        raise RouteNotFound(f"no such path: {path[:128]}")
    allow = ", ".join(found.verbs)
    operation = found.verbs.get(method)
    if operation is None:
        raise WrongHttpMethod(f"{path[:128]} takes {allow}", allow=allow)
    return Route(
        operation=operation,
        version=version,
        tenant=tenant,
        task_id=found.task_id,
        config_id=found.config_id,
        allow=allow,
    )


def _find(version: Version, segments: Sequence[str]) -> _Path | None:
    match segments:
        case [name]:
            return _FIXED[version].get(name)
        case ["tasks", task] if task:
            return _task_path(task)
        case ["tasks", task, name] if task and name == _CONFIGS:
            return _Path(verbs=_ALL_CONFIGS, task_id=task)
        case ["tasks", task, name, config] if task and name == _CONFIGS and config:
            return _Path(verbs=_ONE_CONFIG, task_id=task, config_id=config)
        case _:
            return None


def _task_path(segment: str) -> _Path | None:
    # An id may hold colons itself; only a known verb after the last one counts.
    task, _, verb = segment.rpartition(":")
    verbs = _TASK_VERBS.get(verb)
    if verbs is None:
        return _Path(verbs={"GET": Operation.GET_TASK}, task_id=segment)
    return _Path(verbs=verbs, task_id=task) if task else None


def _other_version(
    path: str, version: str, remedy: str, only: Version | None, stated: Version | None
) -> RouteNotFound:
    if only is not None:
        return RouteNotFound(
            f"{path[:128]} is a path of A2A {version}, and this agent speaks {only} alone: "
            f"call {remedy[:128]}"
        )
    why = "states another version" if stated else "has no A2A-Version, which means 0.3"
    return RouteNotFound(
        f"{path[:128]} is a path of A2A {version}, but the request {why}: "
        f'call {remedy[:128]}, or send "A2A-Version: {version}"'
    )
