"""Write the methods of the Python client of the hub, one for each of its routes."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from keyword import iskeyword
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, UnsetType
from msgspec.structs import FieldInfo, fields
from tools.hub_routes import routes

from trunkline.api.api import Route
from trunkline.api.input import JSON
from trunkline.api.openapi import method_name
from trunkline.api.paths import parameters_of

FOLDER = Path(__file__).resolve().parent.parent / "src" / "trunkline" / "hub"
ASYNC, SYNC = "client_calls.py", "client_calls_sync.py"
HEAD = '''"""`{name}`: {about}

Written by tools/gen_hub_client.py from the table of routes; run it after a change of a route.
"""
'''


class Names:
    """The names that a module imports."""

    def __init__(self) -> None:
        self._found: set[tuple[str, str]] = set()

    def add(self, module: str, name: str) -> str:
        if module != "builtins":
            self._found.add((module, name))
        return name

    def lines(self) -> Iterator[str]:
        for module in sorted({module for module, _ in self._found}):
            names = ", ".join(sorted(name for each, name in self._found if each == module))
            yield f"from {module} import {names}"

    def of(self, kind: Any) -> str:
        """A type as it is written in source."""
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.of(arguments[0])
        if origin in (Union, UnionType):
            return " | ".join(dict.fromkeys(self.of(each) for each in arguments))
        if origin is Literal:
            inner = ", ".join(repr(each) for each in sorted(arguments))
            return f"{self.add('typing', 'Literal')}[{inner}]"
        if kind in (None, NoneType):
            return "None"
        if kind is ...:
            return "..."
        if kind is Any:
            return self.add("typing", "Any")
        if kind is UnsetType:
            return self.add("msgspec", "UnsetType")
        name = self.add(*_place(origin or kind))
        return f"{name}[{', '.join(map(self.of, arguments))}]" if arguments else name


def _place(kind: Any) -> tuple[str, str]:
    return kind.__module__, kind.__name__


def modules(table: Iterable[Route]) -> dict[str, str]:
    """The source of both modules by their names."""
    ordered = sorted(table, key=method_name)
    # A redirect is for browsers, and a stream without an end is no result.
    called = [route for route in ordered if not (300 <= route.success < 400 or route.is_endless)]
    return {ASYNC: _formatted(_calls(called)), SYNC: _formatted(_sync_calls(called))}


def _calls(table: Sequence[Route]) -> str:
    names = Names()
    names.add("trunkline.hub.client_http", "HubHttp")
    methods = "\n".join(_method(route, names) for route in table)
    about = "the calls of a hub, one for each of its routes."
    return "\n".join(
        [
            HEAD.format(name="HubCalls", about=about),
            *names.lines(),
            "class HubCalls:",
            "    def __init__(self, http: HubHttp) -> None:",
            "        self._http = http",
            methods,
        ]
    )


def _sync_calls(table: Sequence[Route]) -> str:
    names = Names()
    names.add("abc", "abstractmethod")
    names.add("collections.abc", "Coroutine")
    names.add("trunkline.hub.client_calls", "HubCalls")
    for name in ("Any", "TypeVar"):
        names.add("typing", name)
    methods = "\n".join(_sync_method(route, names) for route in table)
    about = "the calls of a hub for programs without asyncio."
    return "\n".join(
        [
            HEAD.format(name="SyncHubCalls", about=about),
            *names.lines(),
            'T = TypeVar("T")',
            "class SyncHubCalls:",
            "    def __init__(self, calls: HubCalls) -> None:",
            "        self._calls = calls",
            "    @abstractmethod",
            "    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...\n",
            methods,
        ]
    )


def _method(route: Route, names: Names) -> str:
    path = repr(route.path)
    if parameters := parameters_of(route.path):
        names.add("trunkline.hub.client_http", "path_of")
        given = ", ".join(f"{name}={_word(name)}" for name in parameters)
        path = f"path_of({path}, {given})"
    arguments = [repr(route.method), path]
    if route.query is not None:
        inner = ", ".join(f"{one.name}={_word(one.name)}" for one in _query_fields(route))
        arguments.append(f"query={names.of(route.query)}({inner})")
    if route.body is not None:
        arguments.append("body=body")
    way, result = _way(route, names)
    if way in ("value", "form"):
        arguments.insert(0, names.of(route.result))
    answer = "" if way == "nothing" else "return "
    return (
        f"    async def {method_name(route)}({_parameters(route, names)}) -> {result}:\n"
        f"        {_docstring(route)}\n"
        f"        {answer}await self._http.{way}({', '.join(arguments)})\n"
    )


def _sync_method(route: Route, names: Names) -> str:
    given = [_word(name) for name in parameters_of(route.path)]
    given += ["body"] if route.body is not None else []
    given += [f"{_word(f.name)}={_word(f.name)}" for f in _query_fields(route)]
    way, result = _way(route, names)
    name = method_name(route)
    answer = "" if way == "nothing" else "return "
    return (
        f"    def {name}({_parameters(route, names)}) -> {result}:\n"
        f"        {_docstring(route)}\n"
        f"        {answer}self._run(self._calls.{name}({', '.join(given)}))\n"
    )


def _way(route: Route, names: Names) -> tuple[str, str]:
    """The method of HubHttp, and the type of the result."""
    if route.result_media_type != JSON:
        return "text", "str"
    if route.result is None:
        return "nothing", "None"
    way = "value" if route.body is None or route.body_media_type == JSON else "form"
    return way, names.of(route.result)


def _parameters(route: Route, names: Names) -> str:
    given = ["self", *(f"{_word(name)}: str" for name in parameters_of(route.path))]
    if route.body is not None:
        given.append(f"body: {names.of(route.body)}")
    if asked := _query_fields(route):
        given.append("*")
        given += [_keyword(field, names) for field in asked]
    return ", ".join(given)


def _query_fields(route: Route) -> tuple[FieldInfo, ...]:
    return () if route.query is None else fields(route.query)


def _keyword(field: FieldInfo, names: Names) -> str:
    start = f"{_word(field.name)}: {names.of(field.type)}"
    if field.default is NODEFAULT:
        assert field.default_factory is NODEFAULT, f"{field.name} has a default that is made"
        return start
    if field.default is UNSET:
        return f"{start} = {names.add('msgspec', 'UNSET')}"
    return f"{start} = {field.default!r}"


def _word(name: str) -> str:
    """The name of an argument: no word that Python has for itself, such as `from`."""
    return f"{name}_" if iskeyword(name) else name


def _docstring(route: Route) -> str:
    text = f"{route.summary.rstrip('.')}."
    if route.description:
        text = f"{text} {route.description}"
    return f'"""{text}"""' if len(text) < 85 else f'"""{_wrapped(text)}\n        """'


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 82:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n        ".join(lines)


def _formatted(source: str) -> str:
    for command in (("check", "--fix", "--select", "I", "--quiet"), ("format", "--quiet")):
        source = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FOLDER / ASYNC), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source


def main() -> None:
    for name, source in modules(routes()).items():
        (FOLDER / name).write_text(source, "utf-8")


if __name__ == "__main__":
    main()
