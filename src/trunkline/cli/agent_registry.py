"""`trunkline agent add | set | ls | show | publish | unpublish | rm`: agents of the registry."""

from typing import Annotated, Any, Literal

import msgspec
import typer

from trunkline.cli import options
from trunkline.cli.agent_values import AgentFlags, Keys
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.hub import on_hub
from trunkline.cli.output import aligned, clean, counted, json_document, one_line
from trunkline.cli.usage import command
from trunkline.model.errors import ConfigError

Handle = Annotated[str, typer.Argument(metavar="OWNER/SLUG", help="Handle of the agent.")]
_TITLES = ("HANDLE", "STATUS", "VISIBILITY", "ONLINE", "BACKEND", "NAME")


def register(app: typer.Typer) -> None:
    command(app, "add")(add)
    command(app, "set")(change)
    command(app, "ls")(ls)
    command(app, "show")(show)
    command(app, "publish")(publish)
    command(app, "unpublish")(unpublish)
    command(app, "rm")(rm)


def add(
    handle: Handle,
    keys: Keys = None,
    *,
    agent: AgentFlags,
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
    values = agent.values(keys)
    if "backend" not in values:
        raise ConfigError("--backend: name the kind of the backend, for example --backend echo.")
    if publish:
        values["status"] = "published"
    return _told(on_hub(flags, "hub.agent.add", {"handle": handle, **values}), output)


def change(
    handle: Handle,
    keys: Keys = None,
    *,
    agent: AgentFlags,
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> Exit:
    """Change an agent of the registry.

    What is not given stays as it is. A backend is replaced as a whole: running turns finish on the
    earlier one.
    """
    values = agent.values(keys)
    if not values:
        raise ConfigError("nothing is to be changed: give an option, such as --tagline TEXT.")
    return _changed(flags, handle, output, **values)


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
    lines = aligned(rows)
    return "\n".join([*lines, counted(len(items), "agent")] if len(items) > 1 else lines)


def _lines(agent: dict[str, Any]) -> str:
    width = max(map(len, agent))
    return "\n".join(f"{key:<{width}}  {_shown(value)}".rstrip() for key, value in agent.items())


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return one_line(value)
    return one_line(msgspec.json.encode(value).decode())
