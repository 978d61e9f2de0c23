"""The store of a relay: `relay.db` in the user's data folder, unless a flag says otherwise."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.cli.options import StoreFlags, store_overrides
from trunkline.cli.serve import prepare_folders
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.settings import Settings, StoreSettings

# A gateway on the same machine, which attaches to the relay, has its tasks in another file.
DATABASE_NAME = "relay.db"


def relay_overrides(
    file: Path | None, data: Path | None, db: str | None
) -> Mapping[str, Mapping[str, Any]]:
    """The table `[store]` by the flags. Raises ConfigError."""
    from trunkline.settings.environment import literal
    from trunkline.settings.stores import data_dir

    if file is not None or data is not None or db is not None:
        return store_overrides(file, data, db)
    return {"store": {"kind": "sqlite", "path": literal(str(data_dir() / DATABASE_NAME))}}


def store_words(file: Path | None, data: Path | None, db: str | None) -> list[str]:
    """The flags again, for commands to copy. A password in a URL is not shown."""
    from trunkline.model.addresses import without_password

    words: list[str] = []
    if file is not None:
        words += ["--config", str(file)]
    if data is not None:
        words += ["--data", str(data)]
    if db is not None:
        words += ["--db", without_password(db)]
    return words


def on_relay(flags: StoreFlags, name: str, arguments: dict[str, Any]) -> Any:
    """The result of a command of an operator, as JSON has it, of the running relay or, where none
    runs, of its store. Raises TrunklineError."""
    from trunkline.app.operator_client import run_command
    from trunkline.app.relay.commands import run_alone

    return run_command(
        operator_store(flags), name, arguments, load=lambda: _settings(flags), alone=run_alone
    )


def operator_store(flags: StoreFlags) -> "StoreSettings":
    """The store beside which a running relay is found. Raises ConfigError."""
    try:
        return _settings(flags).operator_store()
    except ConfigError:
        if flags.config is None:
            raise
        # The running gateway has the environment that the file refers to.
        return flags.operator_store()


def _settings(flags: StoreFlags) -> "Settings":
    """The settings of the flags, as those of a relay also where the file does not mention it.
    Raises ConfigError."""
    from trunkline.settings import from_document

    store = relay_overrides(flags.file, flags.data, flags.db)
    overrides: dict[str, Any] = {"relay_server": {}, **store}
    if flags.file is None:
        settings = from_document(overrides, source="the command line")
    else:
        settings = flags.load(overrides=overrides)[0]
    prepare_folders(settings)
    return settings
