"""Flags that several commands share, the parsers of their values, and the settings behind them."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
import typer
from msgspec import Struct

from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.settings import Settings, StoreSettings

Form: TypeAlias = Literal["text", "json"]


def whole(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """The parser of a whole number. Typer passes defaults through it too, as numbers."""
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"

    def number(given: str | int) -> int:
        try:
            value = int(given)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise typer.BadParameter(f'expected a whole number {bounds}, got "{given}".')
        return value

    return number


def seconds(given: str | float) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0.001):
        raise typer.BadParameter(f'expected seconds, such as 30 or 0.5, got "{given}".')
    return value


def not_empty(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Refuse an empty value: a script that forgot to set a variable must not mean another task."""
    if not value.strip() and is_typed(context, parameter.name or ""):
        raise typer.BadParameter(
            "it is empty. Is the variable set? Leave the option out if you do not need it."
        )
    return value


def is_typed(context: typer.Context, name: str) -> bool:
    """Whether the value is from the command line, not from the environment or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def from_json(text: str | bytes, *, what: str, remedy: str = "") -> Any:
    """The value of a JSON text. `what` names the text in the ConfigError that it raises."""
    try:
        return msgspec.json.decode(text)
    except UnicodeDecodeError:
        fault = "it is not UTF-8"
    except RecursionError:
        fault = "it is nested too deeply"
    except msgspec.DecodeError as error:
        fault = str(error).removeprefix("JSON is malformed: ")
        if "truncated" in fault:
            fault = "it ends too early"
    raise ConfigError(f"{what} is not JSON: {fault}. {remedy}".rstrip())


def seconds_option(help: str, *, default: str | bool = True) -> Any:
    return typer.Option(parser=seconds, metavar="SECONDS", help=help, show_default=default)


def id_option(help: str, *, default: str) -> Any:
    return typer.Option(metavar="ID", help=help, show_default=default, callback=not_empty)


def limit_option(help: str) -> Any:
    return typer.Option("--limit", "-n", parser=whole(1), metavar="N", help=help)


Debug = Annotated[
    bool, typer.Option("--debug", envvar="TRUNKLINE_DEBUG", help="Show the traceback of an error.")
]
Output = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
OpenClawConfig = Annotated[
    Path | None,
    typer.Option(
        "--openclaw-config", metavar="FILE", help="An openclaw.json file (JSON5 or YAML)."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the database; with PostgreSQL, of the gateway's own files.",
        show_default="the user's data folder",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Database URL: sqlite:///FILE, json-file:///FOLDER, postgresql://… or memory:.",
    ),
]

# Flags of commands that start a gateway.
Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(help="Minimum level of log messages.", show_default="info"),
]
LogFormat = Annotated[
    Literal["auto", "human", "json"] | None,
    typer.Option(
        help="Log format; auto is human on a terminal and json elsewhere.", show_default="auto"
    ),
]
port_number = whole(0, 65_535)

# Flags of commands that call agents.
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Address of an agent (URL, host:port or :port) or alias of a configured target.",
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Id of a task.",
        show_default="the last task sent to this target",
        callback=not_empty,
    ),
]
ResultOutput = Annotated[
    Form, typer.Option("--output", "-o", help="Output format: text for people, json for programs.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print progress on stderr even without a terminal.")
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        help="File to send, or the URL of a file. Repeatable; 20 MB in total.",
    ),
]
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="JSON", help="JSON data to send, or @FILE to read it from a file. Repeatable."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Save the artifacts of the answer in this folder. Existing files are kept.",
    ),
]
History = Annotated[
    int | None,
    typer.Option(parser=whole(0), metavar="N", help="Number of earlier messages to fetch."),
]


class ConfigFlags(Struct, frozen=True, kw_only=True):
    """The configuration files of a command."""

    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            envvar="TRUNKLINE_CONFIG",
            help="Configuration file (TOML). None is read by default.",
        ),
    ] = None
    openclaw_config: OpenClawConfig = None

    @property
    def file(self) -> Path | None:
        return self.config or self.openclaw_config

    def load(
        self, *, target: str | None = None, overrides: dict[str, Any] | None = None
    ) -> tuple["Settings", tuple[str, ...]]:
        """The settings, and notes about them for the user. Raises ConfigError.

        Without any file and target, the settings are those of the demo agent. `overrides` has the
        form of the file and wins over it.
        """
        from trunkline.settings import demo, for_target, load

        if self.openclaw_config is not None:
            from trunkline.settings.openclaw.load import load_openclaw

            found = load_openclaw(
                self.openclaw_config, target=target, config=self.config, overrides=overrides
            )
            return found.settings, found.notes
        if target is not None:
            return for_target(target, config=self.config, overrides=overrides), ()
        if self.config is None:
            return demo(overrides=overrides), ()
        return load(self.config, overrides=overrides), ()

    def load_to_call(self, overrides: dict[str, Any] | None = None) -> "Settings":
        """The settings of a command that calls other agents. Raises ConfigError.

        Without a file they have neither agents nor targets.
        """
        from msgspec.structs import replace

        if self.openclaw_config is not None:
            from trunkline.settings.openclaw.load import load_openclaw_targets

            return load_openclaw_targets(
                self.openclaw_config, config=self.config, overrides=overrides
            )
        settings, _ = self.load(overrides=overrides)
        return settings if self.config is not None else replace(settings, agents={})


class StoreFlags(ConfigFlags, frozen=True, kw_only=True):
    data: DataFolder = None
    db: Database = None

    def settings(self) -> "Settings":
        """Raises ConfigError."""
        return self.load(overrides=store_overrides(self.config, self.data, self.db))[0]

    def operator_store(self) -> "StoreSettings":
        """The store beside which a running gateway is found. Raises ConfigError."""
        return self.store_and_lease()[0]

    def store_and_lease(self) -> tuple["StoreSettings", float]:
        """The same, and the lease of gateways that share it, in seconds. Raises ConfigError."""
        from trunkline.settings import demo
        from trunkline.settings.load import load_store

        overrides = store_overrides(self.config, self.data, self.db)
        if "kind" in overrides.get("store", {}) or self.file is None:
            settings = demo(overrides=overrides)
            return settings.store, settings.cluster.lease_s
        try:
            settings = self.settings()
        except ConfigError:
            # The gateway itself says what is wrong with the file, and it has the environment that
            # the file refers to.
            if self.config is None:
                raise
            return load_store(self.config), demo().cluster.lease_s
        return settings.operator_store(), settings.cluster.lease_s


def store_overrides(
    config: Path | None, data: Path | None, db: str | None
) -> dict[str, Mapping[str, Any]]:
    """`--data` and `--db` as overrides of the table `[store]` in `config`. Raises ConfigError."""
    from trunkline.settings.environment import literal
    from trunkline.settings.load import read_toml
    from trunkline.settings.stores import DATABASE_NAME, table_of_url

    folder = None if data is None else literal(str(data.expanduser().absolute()))
    if db is None:
        if folder is None:
            return {}
        table = {} if config is None else read_toml(config).get("store", {})
        kind = table.get("kind") if isinstance(table, Mapping) else None
        if kind == "postgres":
            return {"store": {"path": folder}}
        if kind == "json-file":
            raise ConfigError(
                f"--data is the folder of a SQLite database, and [store] of {config} has kind = "
                '"json-file". Give --db json-file:///FOLDER for another folder of JSON files, or '
                "--db sqlite:///FILE for a database."
            )
        return {"store": {"kind": "sqlite", "path": f"{folder}/{DATABASE_NAME}"}}
    try:
        table = table_of_url(db)
    except ConfigError as error:
        raise ConfigError(f"--db {error.message}") from None
    if folder is not None:
        if table["kind"] != "postgres":
            raise ConfigError(
                "--data and --db both say where the database is. Give one of them: --data DIR for "
                "a folder, --db sqlite:///FILE for a file."
            )
        table["path"] = folder
    return {"store": table}
