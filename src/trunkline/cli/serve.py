"""`trunkline serve`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, LogFormat, LogLevel
from trunkline.cli.storage import ConfigOption, DataOption, DbOption, literal, store_overrides

if TYPE_CHECKING:
    from trunkline.settings import Settings


def serve(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            help="Python agents to publish: FILE.py, FILE.py:attribute or module:attribute.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port; 0 takes any free port.", show_default="8642"),
    ] = None,
    data: DataOption = None,
    db: DbOption = None,
    log_level: Annotated[
        LogLevel | None, typer.Option(help="Least severe record to log.", show_default="info")
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(help="auto: human on a terminal, json elsewhere.", show_default="auto"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Start the gateway.

    With a TARGET it publishes the Python agents there, with --config those of a file,
    with both all of them; with neither a demo agent. Flags win over the file.
    """
    from trunkline.cli.startup import announce
    from trunkline.settings import make_private_dir

    with reported(context):
        server = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
        store = store_overrides(data, db)
        overrides: dict[str, Any] = {
            "server": {key: literal(value) for key, value in server.items() if value is not None},
            **({"store": store} if store else {}),
        }
        settings = _settings(target, config, overrides)
        if settings.store.kind != "memory":
            from trunkline.settings import database_path

            path = database_path(settings.store)
            make_private_dir(path.parent if settings.store.kind == "sqlite" else path)
        # Imported here because it loads the whole gateway, which no other command needs.
        from trunkline.app import serve as serve_gateway

        code = serve_gateway(settings, on_ready=lambda started: announce(started, settings))
    raise typer.Exit(code)


def _settings(target: str | None, config: Path | None, overrides: dict[str, Any]) -> "Settings":
    from trunkline.settings import demo, for_target, load

    if target is not None:
        return for_target(target, config=config, overrides=overrides)
    return demo(overrides=overrides) if config is None else load(config, overrides=overrides)
