"""The settings of a command: its configuration files, and the flags that override them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.settings import Settings


def load_settings(
    config: Path | None,
    openclaw_config: Path | None,
    *,
    target: str | None = None,
    overrides: dict[str, Any] | None = None,
) -> tuple["Settings", tuple[str, ...]]:
    """The settings, and notes about them for the user. Raises ConfigError.

    Without any file and target, the settings are those of the demo agent. `overrides` has the
    form of the file and wins over it.
    """
    from trunkline.settings import demo, for_target, load

    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw

        found = load_openclaw(openclaw_config, target=target, config=config, overrides=overrides)
        return found.settings, found.notes
    if target is not None:
        return for_target(target, config=config, overrides=overrides), ()
    return demo(overrides=overrides) if config is None else load(config, overrides=overrides), ()


def caller_settings(
    config: Path | None, openclaw_config: Path | None, overrides: dict[str, Any] | None = None
) -> "Settings":
    """The settings of a command that calls other agents. Raises ConfigError.

    Without a file they have neither agents nor targets.
    """
    from msgspec.structs import replace

    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw_targets

        return load_openclaw_targets(openclaw_config, config=config, overrides=overrides)
    settings, _ = load_settings(config, None, overrides=overrides)
    return settings if config is not None else replace(settings, agents={})


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
