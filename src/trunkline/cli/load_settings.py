"""`ConfigFlags` and `StoreFlags`: the flags that name the settings of a command, and load them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from trunkline.cli.options import Database, DataFolder, OpenClawConfig
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.settings import Settings


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
            from trunkline.settings.openclaw import load_openclaw

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
            from trunkline.settings.openclaw import load_openclaw_targets

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
        return self.load(overrides=store_overrides(self.data, self.db))[0]


def store_overrides(data: Path | None, db: str | None) -> dict[str, Mapping[str, str]]:
    """`--data` and `--db` as overrides of the table `[store]`. Raises ConfigError."""
    from trunkline.settings.environment import literal
    from trunkline.settings.stores import DATABASE_NAME

    if data is not None and db is not None:
        raise ConfigError(
            "--data and --db both say where the database is. Give one of them: --data DIR for "
            "a folder, --db sqlite:///FILE for a file."
        )
    if db in ("memory:", "memory://"):
        return {"store": {"kind": "memory"}}
    if data is not None:
        file = data / DATABASE_NAME
    elif db is None:
        return {}
    elif db.startswith("sqlite:///") and db != "sqlite:///":
        file = Path(db.removeprefix("sqlite:///"))
    else:
        raise ConfigError(
            f"--db {db}: expected sqlite:///FILE or memory:. An absolute file has four slashes: "
            "sqlite:////var/lib/trunkline/trunkline.db."
        )
    return {"store": {"kind": "sqlite", "path": literal(str(file.expanduser().absolute()))}}


def log_warnings(settings: "Settings") -> None:
    """Log warnings and errors on stderr, with every secret of the settings masked."""
    from trunkline.config.secret import secrets_in
    from trunkline.server import logs

    logs.configure(level="warning", form="human", secrets=secrets_in(settings))
