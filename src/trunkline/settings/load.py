"""Settings from a TOML file, from a document, or from a target on the command line."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from trunkline.backends.programs.settings import ProgramSettings
from trunkline.backends.python.settings import (
    PythonBackend,
    is_file_target,
    join_target,
    split_target,
)
from trunkline.config.problems import InvalidSettings, Problem, Referenced, shown
from trunkline.model.errors import ConfigError
from trunkline.model.handles import EVERY
from trunkline.settings.agents import AgentSettings
from trunkline.settings.decode import decode
from trunkline.settings.environment import expand
from trunkline.settings.root import Settings
from trunkline.settings.rules import find_problems
from trunkline.settings.stores import StoreSettings

Document = Mapping[str, Any]

POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
# Messages of the TOML parser that name its own internals, and ours in their place.
TOML_FAULTS = {
    r"Cannot overwrite a value": "the key is there already. Remove one of the two",
    r"Cannot declare \(.*\) twice": "the table is there already. Put all its keys into one",
    r"Cannot mutate immutable namespace \(.*\)": "the table in braces is closed. Put all its keys "
    "between the braces",
    r"Invalid value": 'this is not a value. Strings have "quotes", and switches are true or false',
}
DEMO: Document = {
    "agents": {
        "demo/echo": {
            "name": "Echo",
            "description": "Answers with the message itself.",
            "default": True,
            "backend": {"kind": "echo"},
            "skills": [
                {
                    "id": "echo",
                    "name": "Echo",
                    "description": "Repeats your message.",
                    "tags": ["demo"],
                    "examples": ["hello"],
                }
            ],
        }
    }
}


Program = TypeVar("Program", bound=ProgramSettings)


def load(path: str | Path, *, overrides: Document | None = None) -> Settings:
    """Settings from a TOML file; `overrides` has the form of the file and wins over it.

    Raises ConfigError, with everything that is wrong.
    """
    file = Path(path)
    document = merged(read_toml(file), overrides or {})
    return from_document(document, folder=file.absolute().parent, source=str(path))


def load_store(path: str | Path, *, environment: Mapping[str, str] = os.environ) -> StoreSettings:
    """The main store of a TOML file. No other table is read, so that a file whose other tables
    have problems, or refer to variables that are not set here, still says where the store is.

    Raises ConfigError.
    """
    file = Path(path)
    problems: list[Problem] = []
    table = {"store": read_toml(file).get("store", {})}
    settings = decode(expand(table, environment=environment, problems=problems), problems=problems)
    if problems:
        raise InvalidSettings(problems, source=str(path))
    return _with_path(settings.store, file.absolute().parent)


def demo(*, overrides: Document | None = None) -> Settings:
    """One echo agent on loopback, to try things out."""
    return from_document(merged(DEMO, overrides or {}), source="the command line")


def for_target(
    target: str, *, config: str | Path | None = None, overrides: Document | None = None
) -> Settings:
    """Every Python agent in the target, beside the agents of the file if there is one.

    The gateway publishes the agents as `local/<slug of the name>`. It learns their names when it
    loads the target: see `publish`.
    """
    # The file decides which agent is the default, if there is a file.
    agent = {"backend": python_backend(target), "default": config is None}
    document = merged({"agents": {f"local/{EVERY}": agent}}, overrides or {})
    if config is not None:
        return load(config, overrides=document)
    return from_document(document, source="the command line")


def python_backend(target: str) -> dict[str, str]:
    """The table of the backend. A relative path starts at the current folder.

    Raises ConfigError for a file that does not exist or is not Python.
    """
    place, attribute = split_target(target)
    file = Path(place).expanduser()
    if place.endswith(".py"):
        if not file.is_file():
            raise ConfigError(f"{place}: no such file. Give the path of your agent's Python file.")
        place = str(file.absolute())
    elif file.is_file():
        raise ConfigError(f"{place}: not Python. The name of a file with agents ends in .py.")
    return {"kind": "python", "target": join_target(place, attribute)}


def from_document(
    document: Document,
    *,
    folder: Path | None = None,
    source: str = "the configuration",
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Settings from a parsed TOML document. Relative paths start at `folder`."""
    problems: list[Problem] = []
    filled = expand(dict(document), environment=environment, problems=problems)
    settings = decode(filled, problems=problems)
    settings = _resolved(settings, folder or Path.cwd())
    broken = [_unfilled(problem, filled) for problem in find_problems(settings, problems)]
    if problems or broken:
        raise InvalidSettings([*problems, *broken], source=source)
    return settings


def agent_from(handle: str, table: Document, *, among: Settings) -> AgentSettings:
    """The settings of one agent from its table, which is taken literally: `${NAME}` is text.

    The agent is checked by the rules of a file with the other tables of `among`. Raises
    ConfigError.
    """
    problems: list[Problem] = []
    decoded = _resolved(decode({"agents": {handle: dict(table)}}, problems=problems), Path.cwd())
    # Other tables may name other agents.
    alone = replace(among, agents=decoded.agents, relay=None)
    problems += list(find_problems(alone, problems))
    if problems:
        raise InvalidSettings(problems, source="the agent")
    return decoded.agents[handle]


def check(settings: Settings, *, source: str = "the settings") -> None:
    """Apply the rules of a file to settings that were made in Python."""
    problems: list[Problem] = []
    again = decode(settings, problems=problems)
    problems += list(find_problems(again, problems))
    if problems:
        raise InvalidSettings(problems, source=source)


def read_toml(file: Path) -> Document:
    """The document in the file. Raises ConfigError."""
    text = read_text(
        file,
        if_missing="Give the path of a TOML file; `trunkline serve` without --config starts a "
        "demo agent.",
    )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax_fault(file, text, str(error))) from None


def read_text(file: Path, *, if_missing: str) -> str:
    """`if_missing` tells the user what to do when the file does not exist. Raises ConfigError."""
    try:
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 at byte {error.start}. Save the file as UTF-8."
        ) from None
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file. {if_missing}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}.") from error


def _syntax_fault(file: Path, text: str, message: str) -> str:
    position = POSITION.search(message)
    if position is None:
        return f"{file}: not TOML: {message}."
    what = message[: position.start()]
    for theirs, ours in TOML_FAULTS.items():
        what = re.sub(theirs, ours, what)
    if position[1]:
        line, column = int(position[1]), int(position[2])
    else:
        lines = text.splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
    # The error does not quote the line, which may hold an API key.
    return f"{file}, line {line}, column {column}: not TOML: {what}."


def merged(base: Document, over: Document) -> dict[str, Any]:
    """`base` with the keys of `over` on top, table by table."""
    made = dict(base)
    for key, value in over.items():
        below = made.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            made[key] = merged(below, value)
        else:
            made[key] = value
    return made


def _resolved(settings: Settings, folder: Path) -> Settings:
    agents = {handle: _with_files(agent, folder) for handle, agent in settings.agents.items()}
    remote = settings.remote
    if remote.handles_path:
        remote = replace(remote, handles_path=_absolute(remote.handles_path, folder))
    server = settings.server
    if server.card_key_path:
        server = replace(server, card_key_path=_absolute(server.card_key_path, folder))
    relay = settings.relay
    if relay is not None and relay.token_path:
        relay = replace(relay, token_path=_absolute(relay.token_path, folder))
    relay_server = settings.relay_server
    if relay_server is not None:
        tenants = {
            name: replace(each, jwks_path=_absolute(each.jwks_path, folder))
            if each.jwks_path
            else each
            for name, each in relay_server.tenants.items()
        }
        relay_server = replace(relay_server, tenants=tenants)
    return replace(
        settings,
        server=server,
        store=_with_path(settings.store, folder),
        agents=agents,
        remote=remote,
        relay=relay,
        relay_server=relay_server,
    )


def _with_path(store: StoreSettings, folder: Path) -> StoreSettings:
    # The rules refuse a relative folder of JSON files, and their error shows the path as written.
    if not store.path or (store.kind == "json-file" and not _is_absolute(store.path)):
        return store
    return replace(store, path=_absolute(store.path, folder))


def _with_files(agent: AgentSettings, folder: Path) -> AgentSettings:
    if agent.store is not None:
        agent = replace(agent, store=_with_path(agent.store, folder))
    backend = agent.backend
    if isinstance(backend, ProgramSettings):
        return replace(agent, backend=_with_folder(backend, folder))
    if not isinstance(backend, PythonBackend) or not is_file_target(backend.target):
        return agent
    place, attribute = split_target(backend.target)
    target = join_target(_absolute(place, folder), attribute)
    return replace(agent, backend=replace(backend, target=target))


def _with_folder(backend: Program, folder: Path) -> Program:
    program, *arguments = backend.command or ("",)
    if "/" in program:
        program = _absolute(program, folder)
    return replace(backend, command=(program, *arguments), cwd=_absolute(backend.cwd, folder))


def _is_absolute(path: str) -> bool:
    return Path(path).expanduser().is_absolute()


def _absolute(path: str, folder: Path) -> str:
    return os.path.normpath(folder / Path(path).expanduser())


def _unfilled(problem: Problem, document: Any) -> Problem:
    """The problem with a value from the environment shown as the reference in the file."""
    value = document
    for step in problem.path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return problem
    if not isinstance(value, Referenced) or not value:
        return problem
    remedy = problem.remedy.replace(str(value), value.written)
    return replace(problem, value=shown(value), remedy=remedy)
