"""`StoreSettings`: where the gateway keeps tasks, and the folder of its data."""

import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path as File
from typing import Annotated, Literal

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, dotted, shown
from trunkline.model.errors import ConfigError

DATABASE_NAME = "trunkline.db"
EXAMPLE = 'Example: path = "/var/lib/trunkline/tasks".'


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Store of the tasks and their journal."""

    kind: Annotated[
        Literal["sqlite", "json-file", "memory"],
        doc(
            "`sqlite` and `json-file` survive a restart; `memory` is for tests and "
            "loses everything. `json-file` keeps one JSON file per task, for people"
            " and programs that read them."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        doc(
            "Database file, or the absolute path of the `json-file` folder. A "
            "relative database file starts at the folder of this file. Empty: "
            "`trunkline.db` in the user's data folder."
        ),
    ] = ""
    adopt_as: Annotated[
        str,
        doc(
            "Principal that owns the tasks of another program in the `json-file` "
            "folder. Empty: callers without a key."
        ),
    ] = ""
    synchronous: Annotated[
        Literal["full", "normal"],
        doc(
            "`full`: a power cut loses nothing that was acknowledged. `normal`: a "
            "power cut may lose the last moments; a crash of the process loses "
            "nothing. `json-file` supports only `full`."
        ),
    ] = "full"


def data_dir(*, environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> File:
    """The user's data folder. It need not exist yet."""
    # The XDG base directory specification says to ignore a relative path.
    xdg = environment.get("XDG_DATA_HOME", "")
    if xdg and File(xdg).is_absolute():
        return File(xdg) / "trunkline"
    if platform == "darwin":
        return File.home() / "Library" / "Application Support" / "trunkline"
    if platform == "win32":
        local = environment.get("LOCALAPPDATA", "")
        return (File(local) if local else File.home() / "AppData" / "Local") / "trunkline"
    return File.home() / ".local" / "share" / "trunkline"


def database_path(store: StoreSettings) -> File:
    """The file of the SQLite store, or the folder of JSON files."""
    return File(store.path) if store.path else data_dir() / DATABASE_NAME


def operator_path(store: StoreSettings) -> File | None:
    """The file with the credential for commands to the gateway that runs on the store; None for a
    store in memory, which has no place that others could look at."""
    if store.kind == "memory":
        return None
    path = database_path(store)
    return (
        path / ".operator" if store.kind == "json-file" else path.with_name(path.name + ".operator")
    )


def place_of(store: StoreSettings) -> str:
    """The place of the tasks, in words."""
    return "in memory" if store.kind == "memory" else f"{store.kind} at {database_path(store)}"


def make_private_dir(path: File, *, table: str = "store", key: str = "path") -> None:
    """Create the folder for its owner only. A folder that exists keeps its permissions.

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


def store_problems(
    stores: Iterable[tuple[Path, StoreSettings]], *, principals: Container[str]
) -> Iterator[Problem]:
    """The stores by the paths of their tables. `principals` are the names of the keys."""
    taken: dict[File, Path] = {}
    for path, store in stores:
        faults = list(_faults(path, store, principals))
        yield from faults
        if faults or store.kind == "memory":
            continue
        owner = taken.setdefault(database_path(store), path)
        if owner != path:
            yield Problem(
                (*path, "path"),
                f"is where {dotted(owner)} keeps its tasks already",
                "Give each store a path of its own, or leave the agent's store out to "
                "share the one in [store].",
                value=shown(str(database_path(store))),
            )


def _faults(path: Path, store: StoreSettings, principals: Container[str]) -> Iterator[Problem]:
    if store.adopt_as and (store.kind != "json-file" or store.adopt_as not in principals):
        yield bad_value(
            (*path, "adopt_as"),
            "expected the name of a key in [auth.keys], for a store of kind json-file",
            "Leave it out, or name the caller who is to see those tasks.",
            reads=(("auth",),),
        )
    if store.kind != "json-file":
        return
    if not store.path:
        yield Problem((*path, "path"), "missing", EXAMPLE)
    elif not File(store.path).is_absolute():
        yield bad_value((*path, "path"), "expected an absolute path of a folder", EXAMPLE)
    if store.synchronous != "full":
        yield bad_value(
            (*path, "synchronous"),
            "a json-file store always writes through to the disk",
            'Leave it out, or use kind = "sqlite".',
        )
