"""`RouteTable`: finds the routes of a path, which is taken apart before it is decoded."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

Served = TypeVar("Served")

# Long enough for every id and name of the hub.
_LONGEST: Final = 512
# A decoded slash would make two segments of one, and a line break would end a line of a log.
_NEVER_IN_A_NAME: Final = re.compile(r"[/\x00-\x1f\x7f]")


class PathParameter(Struct, frozen=True):
    description: str
    # Of the whole value, as JSON Schema takes it; a value that does not match names nothing.
    pattern: str = r"^[^/\x00-\x1f\x7f]{1,256}$"

    def takes(self, value: str) -> bool:
        return re.search(self.pattern, value) is not None


_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
# By their names in the paths. Others take any text without a slash.
PARAMETERS: Final[Mapping[str, PathParameter]] = {
    "owner": PathParameter("The owner of the agent: the first part of its handle.", _NAME),
    "slug": PathParameter("The second part of the handle of the agent.", _NAME),
    "id": PathParameter("The id, as a list shows it."),
    "key": PathParameter(
        "The key of the session, as a list shows it.", r"^[^/\x00-\x1f\x7f]{1,512}$"
    ),
    "principal": PathParameter("The principal: `user:LOGIN`, or `token:NAME` for a service."),
}
_OTHER: Final = PathParameter("The name, as a list shows it.")


def parameter(name: str) -> PathParameter:
    return PARAMETERS.get(name, _OTHER)


def parameters_of(path: str) -> list[str]:
    """The names of the parameters of `/agents/{owner}/{slug}`, in their order."""
    return [part[1:-1] for part in path.split("/") if _is_parameter(part)]


class _Node(Struct, Generic[Served]):
    """The paths that begin in the same way."""

    literal: "dict[str, _Node[Served]]" = field(default_factory=dict)
    parameter: "_Node[Served] | None" = None
    # What the path that ends here serves, by method, and the names of its parameters.
    served: dict[str, Served] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class RouteTable(Generic[Served]):
    """A literal segment is preferred to a parameter, so that `/agents/by-handle` is no id."""

    def __init__(self, prefix: str, routes: Iterable[tuple[str, str, Served]]) -> None:
        """Each of the routes is a method, a path below the prefix, and what it serves."""
        self._root: _Node[Served] = _Node()
        for method, path, served in routes:
            node, names = self._root, parameters_of(path)
            for part in (prefix + path).split("/"):
                node = _next(node, part)
            assert not node.names or node.names == tuple(names), f"two names for a part of {path}"
            assert method not in node.served, f"two routes for {method} {path}"
            node.names = tuple(names)
            node.served[method] = served

    def find(self, raw_path: bytes) -> tuple[Mapping[str, Served], Mapping[str, str]] | None:
        """What the path serves by method, and the values of its parameters. The path is still
        percent-encoded (RFC 3986, 2.4)."""
        parts = [_decoded(part) for part in raw_path.split(b"/")]
        if None in parts:
            return None
        values: list[str] = []
        node = _find(self._root, [part for part in parts if part is not None], values)
        if node is None:
            return None
        given = dict(zip(node.names, values, strict=True))
        if not all(parameter(name).takes(value) for name, value in given.items()):
            return None
        return node.served, given


def _is_parameter(part: str) -> bool:
    return part.startswith("{")


def _next(node: _Node[Served], part: str) -> _Node[Served]:
    if not _is_parameter(part):
        return node.literal.setdefault(part, _Node())
    if node.parameter is None:
        node.parameter = _Node()
    return node.parameter


def _find(node: _Node[Served], parts: list[str], values: list[str]) -> _Node[Served] | None:
    if not parts:
        return node if node.served else None
    first, rest = parts[0], parts[1:]
    child = node.literal.get(first)
    if child is not None and (found := _find(child, rest, values)) is not None:
        return found
    if node.parameter is None or not first:
        return None
    values.append(first)
    found = _find(node.parameter, rest, values)
    if found is None:
        values.pop()
    return found


def _decoded(part: bytes) -> str | None:
    """None for a segment that no route and no name has."""
    try:
        text = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        return None
    return None if len(text) > _LONGEST or _NEVER_IN_A_NAME.search(text) else text
