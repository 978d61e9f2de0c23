"""`trunkline attach`: a gateway that is reached through a relay."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from msgspec import Struct

from trunkline.cli.exit_codes import complain
from trunkline.cli.options import (
    ConfigFlags,
    Database,
    DataFolder,
    Host,
    LogFormat,
    LogLevel,
    Output,
    is_typed,
    port_number,
    store_overrides,
)
from trunkline.cli.output import has_colours, program
from trunkline.cli.serve import prepare_folders
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.app.serve import ServeInfo
    from trunkline.cli.attach_screen import Screen
    from trunkline.settings import Settings

_VARIABLE = "TRUNKLINE_RELAY_TOKEN"


class RelayFlags(Struct, frozen=True, kw_only=True):
    relay: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Address of the relay. Repeatable: the next ones take its place while it fails.",
        ),
    ] = None
    tenant: Annotated[
        str | None, typer.Option(help="Part of the relay that the agent belongs to.")
    ] = None
    agent: Annotated[
        str | None, typer.Option(metavar="ID", help="Name of the agent at the relay.")
    ] = None
    token: Annotated[
        str | None, typer.Option(envvar=_VARIABLE, help="Token of this gateway at the relay.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the token, which is read before each connection."
        ),
    ] = None
    mode: Annotated[
        Literal["relay", "both"] | None,
        typer.Option(
            help="relay: reached through the relay alone. both: listens as well, and cards name "
            "its own addresses first.",
            show_default="relay",
        ),
    ] = None

    def table(self, files: ConfigFlags, *, is_token_typed: bool) -> dict[str, Any]:
        """What they say of the table [relay]. Raises ConfigError for what nothing says."""
        from trunkline.settings.load import read_toml

        of_file = {} if files.config is None else read_toml(files.config).get("relay", {})
        of_file = of_file if isinstance(of_file, Mapping) else {}
        has_token = self.token_file is not None or not of_file.keys().isdisjoint(_TOKEN_KEYS)
        # The environment is for every command of the shell, and says least about this one.
        token = self.token if is_token_typed or not has_token else None
        url, *standby = map(_relay_url, self.relay or [""])
        given = {
            "url": url,
            "standby": standby if self.relay else None,
            "tenant": self.tenant,
            "agent_id": self.agent,
            "token": token,
            "token_path": None if self.token_file is None else _existing(self.token_file),
            "mode": self.mode or ("" if files.openclaw_config or "mode" in of_file else "relay"),
        }
        table = {key: value for key, value in given.items() if value not in (None, "")}
        if files.file is None:
            _check_all_there(table)
        return table


_TOKEN_KEYS = ("token", "token_path")


def attach(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Python agents to attach: FILE.py, FILE.py:attribute or module:attribute.",
        ),
    ] = None,
    *,
    relay: RelayFlags,
    files: ConfigFlags,
    host: Host = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=port_number,
            metavar="PORT",
            help="Port to listen on; 0 chooses a free port. In the mode relay nothing listens "
            "without --port or --host.",
        ),
    ] = None,
    data: DataFolder = None,
    db: Database = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    output: Output = "text",
    invocation: typer.Context,
) -> int:
    """Attach agents to a relay, so that they can be called from outside.

    Starts a gateway that dials out to the relay. It has the Python agents of TARGET and those of
    the configuration file, or without either a demo agent. Options override the table [relay] of
    the file. The token is best in the environment or in a file, because other users of the machine
    can see options.
    """
    from trunkline.settings.environment import literal

    server = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
    table = relay.table(files, is_token_typed=is_typed(invocation, "token"))
    overrides: dict[str, Any] = {
        "relay": {key: literal(value) for key, value in table.items()},
        "server": {key: literal(value) for key, value in server.items() if value is not None},
        **store_overrides(files.config, data, db),
    }

    def load() -> tuple["Settings", tuple[str, ...]]:
        return files.load(target=target, overrides=overrides)

    settings, notes = load()
    assert settings.relay is not None
    if not settings.agents:
        raise ConfigError(
            f"{files.file}: there is no agent to attach. Add one below [agents], or give a "
            "Python file."
        )
    prepare_folders(settings)
    # Imported here because it loads the whole gateway, which no other command needs.
    from trunkline.app.serve import serve as serve_gateway

    screen = _screen(output, may_renew=bool(settings.relay.token_path))
    serves_others = settings.as_relay or settings.hub or settings.remote.mcp
    is_asked_to = settings.relay.mode == "both" or port is not None or host is not None
    try:
        code = serve_gateway(
            settings,
            load=load,
            on_ready=lambda started: _announce(started, screen, notes),
            on_waiting=lambda: _print_draining(screen, settings.server.drain_s),
            listens=is_asked_to or bool(serves_others),
            watcher=screen,
        )
    finally:
        screen.close()
    if screen.refusal:
        complain(screen.refusal)
    return code


def _relay_url(given: str) -> str:
    """The address where a relay takes gateways, also where only that of the relay is given."""
    if not given:
        return ""
    scheme, separator, rest = given.partition("://")
    if not separator:
        scheme, rest = "wss", given
    scheme = {"http": "ws", "https": "wss"}.get(scheme.lower(), scheme)
    url = f"{scheme}://{rest}"
    return url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/agent"


def _existing(path: Path) -> str:
    """Raises ConfigError."""
    absolute = path.expanduser().absolute()
    if not absolute.is_file():
        raise ConfigError(f"--token-file {path}: no such file. Write the token of this gateway.")
    return str(absolute)


def _check_all_there(table: Mapping[str, Any]) -> None:
    """Raises ConfigError, in the words of the command line."""
    flags = {"url": "--relay URL", "tenant": "--tenant NAME", "agent_id": "--agent ID"}
    missing = [flag for key, flag in flags.items() if key not in table]
    if table.keys().isdisjoint(_TOKEN_KEYS):
        missing.append(f"a token in {_VARIABLE} or with --token-file FILE")
    if missing:
        raise ConfigError(
            f"attach needs {', '.join(missing)}; or --config FILE with a table [relay]. The "
            "operator of the relay knows them."
        )


def _screen(output: str, *, may_renew: bool) -> "Screen":
    from trunkline.cli.attach_screen import JsonScreen, LiveScreen, PlainScreen

    if output == "json":
        return JsonScreen(sys.stdout, may_renew=may_renew)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveScreen(sys.stderr, may_renew=may_renew)
    return PlainScreen(sys.stdout, may_renew=may_renew)


def _announce(started: "ServeInfo", screen: "Screen", notes: tuple[str, ...]) -> None:
    from trunkline.cli.attach_screen import JsonScreen

    if isinstance(screen, JsonScreen):
        screen.started(started.relayed, data=started.data)
    else:
        text = announcement(started, notes=notes, coloured=has_colours(sys.stdout))
        # A supervisor reads this through a pipe and waits for it.
        print(text, flush=True)


def announcement(
    started: "ServeInfo", *, notes: tuple[str, ...] = (), coloured: bool = False
) -> str:
    def label(name: str) -> str:
        return f"\x1b[1m{name:<9}\x1b[0m" if coloured else f"{name:<9}"

    rows = [("Agent" if i == 0 else "", url) for i, url in enumerate(started.relayed)]
    rows.append(("Runs", ", ".join(name for _, name, _ in started.agents)))
    if started.local_url:
        rows.append(("Local", started.local_url))
    rows.append(("Data", started.data))
    lines = [f"{label(name)} {value}" for name, value in rows]
    call = f"{program()} send {started.relayed[0]} hello --token KEY"
    lines += ["", "Call it from anywhere, with a key of the relay:", f"  {call}"]
    lines += ["", *(f"Note: {note}" for note in notes)] if notes else []
    return "\n".join([*lines, "", "Stop with Ctrl+C."])


def _print_draining(screen: "Screen", drain_s: float) -> None:
    stream = screen.log or (sys.stderr if sys.stderr.isatty() else None)
    if stream is not None:
        stream.write(
            f"Stopping: requests and turns have {drain_s:g} s to finish. Ctrl+C again stops now.\n"
        )
        stream.flush()
