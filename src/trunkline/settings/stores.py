"""`StoreSettings`: where the gateway keeps tasks, and the folder of its data."""

import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path as File
from typing import Annotated, Any, Literal

from msgspec import Struct

from trunkline.config import doc
from trunkline.config.problems import Path, Problem, bad_value, dotted, shown
from trunkline.config.secret import Secret
from trunkline.config.urls import POSTGRES_EXAMPLE, postgres_place, postgres_url_fault
from trunkline.model.addresses import without_password
from trunkline.model.errors import ConfigError

DATABASE_NAME = "trunkline.db"
EXAMPLE = 'Example: path = "/var/lib/trunkline/tasks".'


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Store of the tasks and their journal."""

    kind: Annotated[
        Literal["sqlite", "json-file", "memory", "postgres"],
        doc(
            "`sqlite` and `json-file` survive a restart; `memory` is for tests and "
            "loses everything. `json-file` keeps one JSON file per task, for people"
            " and programs that read them. `postgres` is a PostgreSQL database, which several "
            "gateways may share. Needs the extra `postgres`."
        ),
    ] = "sqlite"
    path: Annotated[
        str,
        doc(
            "Database file, or the absolute path of the `json-file` folder. A "
            "relative database file starts at the folder of this file. Empty: "
            "`trunkline.db` in the user's data folder. With `postgres`: the folder for the "
            "gateway's own files, such as the credential of `trunkline reload`; empty: the "
            "user's data folder. Two gateways on one machine need different folders."
        ),
    ] = ""
    url: Annotated[
        Secret | None,
        doc(
            "The database of a `postgres` store: `postgresql://USER:PASSWORD@HOST:5432/DATABASE`, "
            "in the form of libpq. Use an environment variable: `${DATABASE_URL}`."
        ),
    ] = None
    listen_url: Annotated[
        Secret | None,
        doc(
            "The same database without a pooler in between, for notices between gateways and for "
            "migrations. Needed where `url` leads to a pooler in transaction mode."
        ),
    ] = None
    prepared_statements: Annotated[
        bool,
        doc(
            "Whether a `postgres` store prepares its statements. `false` is for poolers in "
            "transaction mode, and costs CPU of the database."
        ),
    ] = True
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


def holds_data(store: StoreSettings) -> bool:
    """Whether there is something on the disk of a store that is not a server."""
    return database_path(store).exists()


def own_folder(store: StoreSettings) -> File:
    """The folder for files of the gateway that are not tasks: beside the SQLite database or the
    folder of JSON files. That of a PostgreSQL store belongs to one gateway on one machine."""
    if store.kind == "postgres":
        return File(store.path) if store.path else data_dir()
    return database_path(store).parent


def operator_path(store: StoreSettings) -> File | None:
    """The file with the credential for commands to the gateway that runs on the store; None for a
    store in memory, which has no place that others could look at."""
    if store.kind == "memory":
        return None
    if store.kind == "postgres":
        return own_folder(store) / "postgres.operator"
    path = database_path(store)
    return (
        path / ".operator" if store.kind == "json-file" else path.with_name(path.name + ".operator")
    )


def url_of(store: StoreSettings) -> str:
    """The URL of a PostgreSQL store, with its password."""
    return "" if store.url is None else store.url.reveal()


def place_of(store: StoreSettings) -> str:
    """The place of the tasks, in words and without a password."""
    if store.kind == "memory":
        return "in memory"
    if store.kind == "postgres":
        return f"postgres at {postgres_place(url_of(store))}"
    return f"{store.kind} at {database_path(store)}"


def table_of_url(url: str) -> dict[str, Any]:
    """The table `[store]` of a store that is given by a URL, which leaves no key of a file in force
    that its kind does not have. Raises ConfigError, without the URL of a database, which may have a
    password."""
    table: dict[str, Any] = {"url": None, "listen_url": None}
    other = {**table, "adopt_as": ""}
    if url in ("memory:", "memory://"):
        return {**other, "kind": "memory"}
    if place := _place_in(url, "sqlite"):
        return {**other, "kind": "sqlite", "path": place}
    if place := _place_in(url, "json-file"):
        return {**table, "kind": "json-file", "path": place, "synchronous": "full"}
    if url.startswith(("postgres:", "postgresql:")):
        if fault := postgres_url_fault(url):
            raise ConfigError(f"{postgres_place(url)}: {fault}.")
        there = {"url": Secret(url), "path": "", "synchronous": "full"}
        return {**other, "kind": "postgres", **there}
    raise ConfigError(
        f"{without_password(url)}: expected sqlite:///FILE, json-file:///FOLDER, "
        f"{POSTGRES_EXAMPLE} or memory:. An absolute file has four slashes: "
        "sqlite:////var/lib/trunkline/trunkline.db."
    )


def _place_in(url: str, kind: str) -> str:
    """The absolute path that the URL names; empty for a URL of another kind."""
    place = url.removeprefix(f"{kind}:///")
    return _absolute(place) if place not in ("", url) else ""


def _absolute(path: str) -> str:
    # `${` in a file name is no reference to the environment.
    return str(File(path).expanduser().absolute()).replace("${", "$${")


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
    taken: dict[File | str, Path] = {}
    for path, store in stores:
        faults = list(_faults(path, store, principals))
        yield from faults
        if faults or store.kind == "memory":
            continue
        is_shared = store.kind == "postgres"
        place = postgres_place(url_of(store)) if is_shared else database_path(store)
        key = "url" if is_shared else "path"
        owner = taken.setdefault(place, path)
        if owner != path:
            yield Problem(
                (*path, key),
                f"is where {dotted(owner)} keeps its tasks already",
                f"Give each store a {key} of its own, or leave the agent's store out to "
                "share the one in [store].",
                value=shown(str(place)),
            )


def _faults(path: Path, store: StoreSettings, principals: Container[str]) -> Iterator[Problem]:
    if store.adopt_as and (store.kind != "json-file" or store.adopt_as not in principals):
        yield bad_value(
            (*path, "adopt_as"),
            "expected the name of a key in [auth.keys], for a store of kind json-file",
            "Leave it out, or name the caller who is to see those tasks.",
            reads=(("auth",),),
        )
    yield from _postgres_faults(path, store)
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


def _postgres_faults(path: Path, store: StoreSettings) -> Iterator[Problem]:
    # A problem of a URL shows neither the URL nor a part of it.
    if store.kind != "postgres":
        for key in ("url", "listen_url"):
            if getattr(store, key) is not None:
                yield Problem(
                    (*path, key),
                    f'is for kind = "postgres", and this store is {shown(store.kind)}',
                    'Leave it out: `path` says where this store is. Or set kind = "postgres".',
                )
        return
    if store.url is None:
        yield Problem((*path, "url"), "missing", f'Example: url = "{POSTGRES_EXAMPLE}".')
    for key, url in (("url", store.url), ("listen_url", store.listen_url)):
        fault = "" if url is None else postgres_url_fault(url.reveal())
        if fault:
            yield Problem((*path, key), fault, "See the URLs of libpq in PostgreSQL's manual.")
    if store.synchronous != "full":
        yield bad_value(
            (*path, "synchronous"),
            "a postgres store always waits until the database has it on disk",
            "Leave it out.",
        )
