"""`trunkline agent add | ls | show | publish | unpublish | rm`: agents of the registry."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.hub import on_hub
from trunkline.cli.output import clean, counted, json_document, one_line
from trunkline.cli.usage import command
from trunkline.model.errors import ConfigError

Handle = Annotated[str, typer.Argument(metavar="OWNER/SLUG", help="Handle of the agent.")]
# Keys of a table of the configuration that are members of an agent.
_VALUES = ("name", "tagline", "description", "visibility", "isolated", "profile", "backend")
_TITLES = ("HANDLE", "STATUS", "VISIBILITY", "ONLINE", "BACKEND", "NAME")


def register(app: typer.Typer) -> None:
    command(app, "add")(add)
    command(app, "ls")(ls)
    command(app, "show")(show)
    command(app, "publish")(publish)
    command(app, "unpublish")(unpublish)
    command(app, "rm")(rm)


def add(
    handle: Handle,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE...",
            help="Keys of the backend, as in the configuration. A value that is JSON is taken as "
            "JSON, else as a text.",
        ),
    ] = None,
    *,
    backend: Annotated[
        str, typer.Option(metavar="KIND", help="Kind of the backend, such as a2a or command.")
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="TOML or JSON with the keys of an agent's table in the configuration. Options "
            "override it.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Display name.", show_default="the slug")] = "",
    tagline: Annotated[str, typer.Option(help="One line, of 160 characters at most.")] = "",
    description: Annotated[str, typer.Option(help="Purpose of the agent, 4 KB at most.")] = "",
    visibility: Annotated[
        Literal["public", "unlisted", "private"] | None,
        typer.Option(
            help="Who learns of it: all, those who know its handle, or callers with a grant.",
            show_default="public",
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="PRESET", help="Preset of its profile.", show_default="standard")
    ] = "",
    daily_budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of queries per day.", show_default="1000"),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum number of turns at once.", show_default="5"),
    ] = None,
    composable: Annotated[
        bool, typer.Option("--composable", help="Let it call other agents during a turn.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish it at once. Without, it is a draft.")
    ] = False,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> Exit:
    """Add an agent to the registry of the hub.

    The gateway that runs on the store publishes it at once; where none runs, the next start does.
    The keys are stored as they are given, secrets too, and `${NAME}` is plain text. A deleted
    handle can be added again, and has its tasks again.
    """
    table = {} if file is None else _read(file)
    arguments = _values(table)
    given_backend = dict(arguments.get("backend", {}))
    if backend:
        given_backend = {"kind": backend}
    given_backend |= dict(map(_pair, keys or ()))
    if "kind" not in given_backend:
        raise ConfigError("--backend: name the kind of the backend, for example --backend echo.")
    arguments["backend"] = given_backend
    options_given: dict[str, Any] = {
        "name": name,
        "tagline": tagline,
        "description": description,
        "visibility": visibility,
        "profile": profile,
        "dailyBudgetQueries": daily_budget,
        "concurrencyCap": concurrency,
    }
    arguments |= {key: value for key, value in options_given.items() if value not in ("", None)}
    if composable:
        arguments["isolated"] = False
    if publish:
        arguments["status"] = "published"
    return _told(on_hub(flags, "hub.agent.add", {"handle": handle, **arguments}), output)


def ls(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD...", help="Only agents in which all words occur."),
    ] = None,
    *,
    owner: Annotated[str, typer.Option(help="Only agents of this owner.")] = "",
    status: Annotated[
        Literal["draft", "published", "deleted"] | None,
        typer.Option(help="Only agents in this state.", show_default="all but deleted ones"),
    ] = None,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> None:
    """List the agents of the registry.

    Agents of the configuration file are not among them; see `trunkline config show`.
    """
    given: dict[str, Any] = {"owner": owner, "q": " ".join(words or ()), "status": status}
    items: list[dict[str, Any]] = []
    while True:
        page = on_hub(flags, "hub.agent.list", given)
        items += page["items"]
        if not page["has_more"]:
            break
        given["after"] = items[-1]["handle"]
    print(json_document({"items": items}) if output == "json" else _table(items))


def show(handle: Handle, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Show an agent of the registry, with the secrets of its backend masked."""
    return _told(on_hub(flags, "hub.agent.show", {"handle": handle}), output, is_whole=True)


def publish(handle: Handle, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Publish an agent of the registry, also one that was deleted.

    Its addresses answer from the next request on.
    """
    return _changed(flags, handle, output, status="published")


def unpublish(
    handle: Handle, *, flags: options.StoreFlags, output: options.Output = "text"
) -> Exit:
    """Make an agent of the registry a draft.

    From the next request on its addresses answer like those of an unknown agent, at every gateway
    of the store. Running turns get the grace of `server.drain_s`.
    """
    return _changed(flags, handle, output, status="draft")


def rm(handle: Handle, *, flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Delete an agent of the registry.

    It is withdrawn as by `unpublish`. Its tasks stay for as long as its profile keeps them, and
    `trunkline agent publish` restores it.
    """
    return _told(on_hub(flags, "hub.agent.remove", {"handle": handle}), output)


def _changed(flags: options.StoreFlags, handle: str, output: options.Form, **values: Any) -> Exit:
    return _told(on_hub(flags, "hub.agent.change", {"handle": handle, **values}), output)


def _told(agent: dict[str, Any], output: options.Form, *, is_whole: bool = False) -> Exit:
    if output == "json":
        print(json_document(agent))
    elif is_whole:
        print(_lines(agent))
    else:
        print(_table([agent]))
    if not agent.get("problem"):
        return Exit.DONE
    complain(f"{agent['handle']} is not served: {clean(agent['problem']).rstrip('.')}.")
    return Exit.FAILED


def _table(items: list[dict[str, Any]]) -> str:
    if not items:
        return "no agents"
    rows = [_TITLES] + [
        (
            one_line(each["handle"]),
            each["status"] + (" (problem)" if each.get("problem") else ""),
            each["visibility"],
            "yes" if each["online"] else "no",
            one_line(str(each["backend"].get("kind", "-"))),
            one_line(each["name"]),
        )
        for each in items
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, counted(len(items), "agent")] if len(items) > 1 else lines)


def _lines(agent: dict[str, Any]) -> str:
    width = max(map(len, agent))
    return "\n".join(f"{key:<{width}}  {_shown(value)}".rstrip() for key, value in agent.items())


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return one_line(value)
    return one_line(msgspec.json.encode(value).decode())


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f'"{one_line(text)[:40]}": expected KEY=VALUE, a key of the backend.')
    try:
        return key, msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return key, value


def _read(file: Path) -> dict[str, Any]:
    from trunkline.settings.load import read_text, read_toml

    if file.suffix == ".json":
        text = read_text(file, if_missing="Give the path of a TOML or JSON file.")
        found = options.from_json(text, what=str(file))
        if not isinstance(found, dict):
            raise ConfigError(f"{file}: expected an object with the keys of an agent.")
        return found
    return dict(read_toml(file))


def _values(table: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the command for a table of the configuration."""
    values = {key: value for key, value in table.items() if key in _VALUES}
    if "skills" in table:
        values["skills"] = [_in_camel_case(skill) for skill in table["skills"]]
    if "limits" in table:
        values["limits"] = _in_camel_case(table["limits"])
    rest = {k: v for k, v in table.items() if k not in (*_VALUES, "skills", "limits")}
    return {**values, "settings": rest} if rest else values


def _in_camel_case(table: Any) -> Any:
    if not isinstance(table, dict):
        return table
    return {_camel(key): value for key, value in table.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
