"""The settings of commands that call other agents."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trunkline.settings import Settings


def calling_settings(
    config: Path | None,
    openclaw_config: Path | None,
    overrides: dict[str, Any] | None = None,
) -> "Settings":
    """Those of the files, if there are any; without one nobody is configured.

    `overrides` has the form of the file and wins over it. Raises ConfigError.
    """
    from msgspec.structs import replace

    from trunkline.settings import demo, load

    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw_targets

        return load_openclaw_targets(openclaw_config, config=config, overrides=overrides)
    if config is not None:
        return load(config, overrides=overrides)
    return replace(demo(overrides=overrides), agents={})


def log_quietly(settings: "Settings") -> None:
    """Warnings and worse on stderr, without the keys of any target."""
    from trunkline.config.secret import secrets_in
    from trunkline.server import logs

    logs.configure(level="warning", form="human", secrets=secrets_in(settings))
