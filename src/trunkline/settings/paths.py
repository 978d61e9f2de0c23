"""Where the gateway keeps its data."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from trunkline.model.errors import ConfigError
from trunkline.settings.outbound import RemoteSettings
from trunkline.settings.server import StoreSettings

DATABASE_NAME = "trunkline.db"
HANDLES_NAME = "handles.db"


def data_dir(*, environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """The user's data folder. It need not exist yet."""
    # A relative XDG path is to be ignored, says the XDG base directory specification.
    xdg = environment.get("XDG_DATA_HOME", "")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "trunkline"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "trunkline"
    if platform == "win32":
        local = environment.get("LOCALAPPDATA", "")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "trunkline"
    return Path.home() / ".local" / "share" / "trunkline"


def database_path(store: StoreSettings) -> Path:
    """The file of the SQLite store, or the folder of JSON files."""
    return Path(store.path) if store.path else data_dir() / DATABASE_NAME


def handles_path(remote: RemoteSettings, store: StoreSettings) -> Path:
    """The file of the task handles."""
    if remote.handles_path:
        return Path(remote.handles_path)
    folder = database_path(store).parent if store.kind == "sqlite" else data_dir()
    return folder / HANDLES_NAME


def place_of(store: StoreSettings) -> str:
    """Where the tasks are, for people."""
    return "in memory" if store.kind == "memory" else f"{store.kind} at {database_path(store)}"


def make_private_dir(path: Path, *, table: str = "store", key: str = "path") -> None:
    """Create the folder for its owner only; one that exists is left as it is.

    `table` and `key` say where it is configured.
    """
    if path.is_dir():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{table}.{key}: cannot create the folder {path}: {error.strerror}. "
            f"Choose another with --data DIR or `{key}` in [{table}]."
        ) from error
