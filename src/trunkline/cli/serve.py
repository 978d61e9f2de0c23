"""`trunkline serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, LogFormat, LogLevel, OpenClawConfig
from trunkline.cli.storage import ConfigOption, DataOption, DbOption, store_overrides
from trunkline.cli.typed import whole

if TYPE_CHECKING:
    from trunkline.settings import Settings


def serve(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Python agents to publish: FILE.py, FILE.py:attribute or module:attribute.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=whole(0, 65_535),
            metavar="PORT",
            help="Port to listen on; 0 chooses a free port.",
            show_default="8642",
        ),
    ] = None,
    data: DataOption = None,
    db: DbOption = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Minimum level of log messages.", show_default="info")
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            help="Log format; auto is human on a terminal and json elsewhere.", show_default="auto"
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Start the gateway.

    Publishes the Python agents of TARGET and the agents of the configuration file. Without
    either it publishes a demo agent. Options override the file.

    With --openclaw-config it serves the accounts of an openclaw.json, and the agent of TARGET
    answers. The keys of --config override those of the openclaw.json.
    """
    from trunkline.cli.startup import announce, say_what_is_waited_for
    from trunkline.settings.environment import literal
    from trunkline.settings.stores import database_path, make_private_dir

    with reported(context):
        server = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
        store = store_overrides(data, db)
        overrides: dict[str, Any] = {
            "server": {key: literal(value) for key, value in server.items() if value is not None},
            **({"store": store} if store else {}),
        }
        settings, notes = _settings(target, config, openclaw_config, overrides)
        for kept in settings.stores():
            if kept.kind != "memory":
                path = database_path(kept)
                make_private_dir(path.parent if kept.kind == "sqlite" else path)
        # Imported here because it loads the whole gateway, which no other command needs.
        from trunkline.app.serve import serve as serve_gateway

        code = serve_gateway(
            settings,
            on_ready=lambda started: announce(started, settings, notes=notes),
            on_waiting=lambda: say_what_is_waited_for(settings.server.drain_s),
        )
    raise typer.Exit(code)


def _settings(
    target: str | None,
    config: Path | None,
    openclaw_config: Path | None,
    overrides: dict[str, Any],
) -> tuple["Settings", tuple[str, ...]]:
    """The settings, and what to tell about them. Raises ConfigError."""
    settings, notes = _given_settings(target, config, openclaw_config, overrides)
    if not settings.agents and not settings.remote.mcp:
        from trunkline.model.errors import ConfigError

        raise ConfigError(
            f"{config or openclaw_config}: there is nothing to serve: the file has agents to call, "
            "and none of its own. Add one:\n"
            '    [agents."demo/echo"]\n    name = "Echo"\n    backend = { kind = "echo" }\n'
            "or serve the tool that calls them, over MCP:\n    [remote]\n    mcp = true"
        )
    warning = settings.access_warning()
    return settings, (*notes, warning) if warning else notes


def _given_settings(
    target: str | None,
    config: Path | None,
    openclaw_config: Path | None,
    overrides: dict[str, Any],
) -> tuple["Settings", tuple[str, ...]]:
    from trunkline.settings import demo, for_target, load

    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw

        found = load_openclaw(openclaw_config, target=target, config=config, overrides=overrides)
        return found.settings, found.notes
    if target is not None:
        return for_target(target, config=config, overrides=overrides), ()
    made = demo(overrides=overrides) if config is None else load(config, overrides=overrides)
    return made, ()
