"""`trunkline serve`, and the text that it prints once the gateway listens."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from trunkline.cli.options import (
    ConfigFlags,
    Database,
    DataFolder,
    Host,
    LogFormat,
    LogLevel,
    port_number,
    store_overrides,
)
from trunkline.cli.output import has_colours, json_line, program
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.app.serve import ServeInfo
    from trunkline.settings import Settings


_NO_HOSTS = (
    "nothing can attach to the relay yet, because it has no tenant. Add one: {} relay tenant add "
    "NAME, with the --config, --data or --db of this gateway."
)
# A registry may hold thousands of agents.
_MAX_SHOWN = 20
# The method and the message of a first call, for each version of A2A.
_HELLO = {
    "1.0": (
        "SendMessage",
        {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]},
    ),
    "0.3": (
        "message/send",
        {
            "kind": "message",
            "messageId": "m1",
            "role": "user",
            "parts": [{"kind": "text", "text": "hello"}],
        },
    ),
}


def serve(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Python agents to publish: FILE.py, FILE.py:attribute or module:attribute.",
        ),
    ] = None,
    *,
    files: ConfigFlags,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=port_number,
            metavar="PORT",
            help="Port to listen on; 0 chooses a free port.",
            show_default="8642",
        ),
    ] = None,
    hub: Annotated[
        bool,
        typer.Option(
            "--hub", help="Turn on the hub: a registry of agents, with credentials to call them."
        ),
    ] = False,
    data: DataFolder = None,
    db: Database = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
) -> int:
    """Start the gateway.

    Publishes the Python agents of TARGET and the agents of the configuration file. Without
    either it publishes a demo agent, unless the hub is on, whose agents are in its store. Options
    override the file.

    With --openclaw-config it serves the accounts of an openclaw.json, and the agent of TARGET
    answers. The keys of --config override those of the openclaw.json.
    """
    from trunkline.settings import from_document
    from trunkline.settings.environment import literal

    server = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
    overrides: dict[str, Any] = {
        "server": {key: literal(value) for key, value in server.items() if value is not None},
        **store_overrides(files.config, data, db),
    }

    if hub:
        overrides["hub"] = {}

    def load() -> tuple["Settings", tuple[str, ...]]:
        if hub and target is None and files.file is None:
            return from_document(overrides, source="the command line"), ()
        return files.load(target=target, overrides=overrides)

    settings, notes = load()
    has_more = settings.remote.mcp or settings.as_relay is not None or settings.hub is not None
    if not settings.agents and not has_more:
        raise ConfigError(
            f"{files.file}: there is nothing to serve: the file has agents to call, "
            "and none of its own. Add one:\n"
            '    [agents."demo/echo"]\n    name = "Echo"\n    backend = { kind = "echo" }\n'
            "or serve the tool that calls them, over MCP:\n    [remote]\n    mcp = true"
        )
    if warning := settings.access_warning():
        notes = (*notes, warning)
    prepare_folders(settings)
    # Imported here because it loads the whole gateway, which no other command needs.
    from trunkline.app.serve import serve as serve_gateway

    return serve_gateway(
        settings,
        load=load,
        on_ready=lambda started: announce(started, settings, notes=notes),
        on_waiting=lambda: print_draining(settings.server.drain_s),
    )


def prepare_folders(settings: "Settings") -> None:
    """Make the folders of the stores, which only their owner may read. Raises ConfigError."""
    from trunkline.settings.stores import database_path, make_private_dir, own_folder

    for kept in settings.stores():
        if kept.kind != "memory":
            is_folder = kept.kind == "json-file"
            make_private_dir(database_path(kept) if is_folder else own_folder(kept))


def announce(
    started: "ServeInfo",
    settings: "Settings",
    *,
    notes: Sequence[str] = (),
    out: TextIO | None = None,
) -> None:
    stream = out if out is not None else sys.stdout
    key = "" if settings.allows_anonymous() else key_in_shell(settings)
    # The card names the public address, so only the url of the interface leads here.
    by_interface, coloured = bool(settings.public_urls()), has_colours(stream)
    if settings.has_no_hosts and not started.tenants:
        notes = (*notes, _NO_HOSTS.format(program()))
    text = screen(
        started,
        key=key,
        by_interface=by_interface,
        by_relay=settings.relay is not None and settings.relay.mode == "relay",
        notes=notes,
        coloured=coloured,
    )
    # A supervisor reads this through a pipe and waits for it.
    print(text, file=stream, flush=True)


def print_draining(drain_s: float) -> None:
    """Tell a person at a terminal how long it takes; a supervisor has its own limits."""
    if sys.stderr.isatty():
        print(
            f"\nStopping: running turns have {drain_s:g} s to finish. Ctrl+C again stops now.",
            file=sys.stderr,
            flush=True,
        )


def key_in_shell(settings: "Settings") -> str:
    """An API key as a word for the shell: its environment variable, or a placeholder."""
    for key in settings.auth.keys.values():
        if key.key is not None and key.key.variable:
            return f'"${key.key.variable}"'
    return "KEY"


def screen(
    started: "ServeInfo",
    *,
    key: str = "",
    by_interface: bool = False,
    by_relay: bool = False,
    notes: Sequence[str] = (),
    coloured: bool = False,
) -> str:
    """`by_relay`: the cards name the relay alone."""

    def label(name: str) -> str:
        return f"\x1b[1m{name:<9}\x1b[0m" if coloured else f"{name:<9}"

    rows = [("Gateway", started.url)]
    local_url = "" if started.local_url == started.url else started.local_url
    further = (("Local", local_url), ("Page", started.page_url), ("Card", started.card_url))
    rows += [row for row in further if row[1]]
    shown = started.agents[:_MAX_SHOWN]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for i, row in enumerate(shown):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        rows.append(("Agents" if i == 0 else "", "  ".join(cells).rstrip()))
    if more := len(started.agents) - len(shown):
        rows.append(("", f"and {more} more"))
    for i, url in enumerate(started.relayed):
        rows.append(("At relay" if i == 0 else "", url))
    if started.attach_url:
        rows.append(("Relay", f"gateways attach at {started.attach_url}"))
    if started.mcp_url:
        rows.append(("MCP", started.mcp_url))
    rows += [("Data", started.data), ("Access", started.auth)]
    lines = [f"{label(name)} {value}" for name, value in rows]
    if by_relay and started.relayed:
        lines += ["", "Call it from anywhere, with a key of the relay:"]
        lines.append(f"  {send(started.relayed[0], key='KEY')}")
    elif started.try_url:
        has_card = started.card_url and not by_interface
        agent = started.local_url if has_card else started.try_url
        line = curl(started.try_url, key=key, version=started.version)
        lines += ["", "Try it in another terminal:", f"  {send(agent, key=key)}", f"  {line}"]
    if started.admin_token:
        lines += [
            "",
            "The hub has no operator yet. This token manages everything in it, and is shown once:",
            f"  {started.admin_token}",
            f"Add people who sign in: {program()} user add LOGIN --admin",
        ]
    lines += ["", *(f"Note: {note}" for note in notes)] if notes else []
    return "\n".join([*lines, "", "Stop with Ctrl+C."])


def send(url: str, *, key: str = "") -> str:
    line = f"{program()} send {shlex.quote(url)} hello"
    return f"{line} --token {key}" if key else line


def curl(url: str, *, key: str = "", version: str = "1.0") -> str:
    """A line for a POSIX shell that sends a message over JSON-RPC."""
    words = ["curl", "-s", url, "-H", "content-type: application/json"]
    words += ["-H", f"A2A-Version: {version}"]
    line = " ".join(shlex.quote(word) for word in words)
    if key:
        line += f' -H "Authorization: Bearer {key.strip(chr(34))}"'
    method, message = _HELLO[version]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return f"{line} -d {shlex.quote(json_line(body))}"
