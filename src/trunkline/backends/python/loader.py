"""`load`: the agents of a file or a module, or one of them by its name."""

import importlib
import importlib.util
import inspect
import os
import sys
import zlib
from pathlib import Path
from types import ModuleType

from trunkline.backends.python.adapters import adapted
from trunkline.backends.python.decorator import Agent
from trunkline.backends.python.failures import blame
from trunkline.backends.python.settings import split_target
from trunkline.model.errors import ConfigError

_EXAMPLE = """\
    from trunkline import agent

    @agent(name="Rust expert", skills=["ask"])
    async def rust(turn):
        yield f"You said {turn.text!r}"
"""


def load(target: str) -> list[Agent]:
    """The agents of `file.py`, `file.py:name`, `module` or `module:name`.

    Raises ConfigError with a text that says what to do about it.
    """
    place, attribute = split_target(target)
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    if attribute:
        return [_named(module, attribute, place)]
    return _all(module, place)


def _file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise ConfigError(
            f"There is no file {path}.\nName a Python file that exists, such as my_agents.py."
        )
    # With a checksum of the path, because a file called json.py must not become the module json.
    name = f"{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be read as Python.")
    module = importlib.util.module_from_spec(spec)
    _make_importable(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(blame(error, path.name)) from error
    return module


def _module(name: str) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(blame(error, name)) from error
        raise ConfigError(
            f"There is no module {error.name!r}, neither installed nor in {Path.cwd()}.\n"
            f"To name a file, write it with its ending: {name.replace('.', '/')}.py."
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(blame(error, name)) from error


def _make_importable(folder: Path) -> None:
    # Agents can then import the files beside them, as a script can.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _named(module: ModuleType, attribute: str, place: str) -> Agent:
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ConfigError(f"{place} has no {attribute!r}.\n{_what_is_there(module)}")
        found = getattr(found, name)
    if isinstance(found, Agent):
        return found
    if (made := adapted(found, attribute)) is not None:
        return made
    if callable(found) and not inspect.isclass(found):
        return Agent(found)
    raise ConfigError(
        f"{place}:{attribute} is {type(found).__name__}, not an agent.\n{_what_is_there(module)}"
    )


def _all(module: ModuleType, place: str) -> list[Agent]:
    # A file may give two names to one agent.
    agents = list(dict.fromkeys(v for v in vars(module).values() if isinstance(v, Agent)))
    if not agents:
        agents = _of_frameworks(module, place)
    if not agents:
        functions = _functions(module)
        hint = f"Put @agent above {functions[0]}" if functions else "Write one"
        raise ConfigError(f"{place} has no agent in it.\n{hint}, for example:\n\n{_EXAMPLE}")
    slugs = [agent.slug for agent in agents]
    for slug in slugs:
        if slugs.count(slug) > 1:
            raise ConfigError(
                f"{place} has {slugs.count(slug)} agents with the slug {slug!r}.\n"
                f'Give one of them another: @agent(slug="…").'
            )
    return agents


def _of_frameworks(module: ModuleType, place: str) -> list[Agent]:
    """The graph, or the agent of another framework, if there is one and no other."""
    found = {
        name: made
        for name, value in vars(module).items()
        if not name.startswith("_") and (made := _adapted_if_whole(value, name)) is not None
    }
    # The name that ADK itself looks for.
    if len(found) > 1 and "root_agent" in found:
        return [found["root_agent"]]
    if len(found) > 1:
        names = ", ".join(found)
        first = next(iter(found))
        raise ConfigError(
            f"{place} has several agents of another framework: {names}.\n"
            f"Name one as {place}:{first}."
        )
    return list(found.values())


def _adapted_if_whole(value: object, name: str) -> Agent | None:
    try:
        return adapted(value, name)
    except ConfigError:
        # A file often has the builder of a graph beside the compiled graph.
        return None


def _what_is_there(module: ModuleType) -> str:
    agents = [name for name, value in vars(module).items() if isinstance(value, Agent)]
    if names := agents or _functions(module):
        kind = "agents" if agents else "functions"
        return f"The {kind} there are: {', '.join(names)}."
    return f"There is no agent in it. Write one, for example:\n\n{_EXAMPLE}"


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
