"""Rules of the places where tasks are kept."""

from collections.abc import Iterator
from pathlib import Path as File

from trunkline.config.problems import Path, Problem, dotted, shown
from trunkline.settings.paths import database_path
from trunkline.settings.root import Settings
from trunkline.settings.server import StoreSettings

EXAMPLE = 'Example: path = "/var/lib/trunkline/tasks".'


def store_problems(settings: Settings) -> Iterator[Problem]:
    taken: dict[File, Path] = {}
    for path, store in _stores(settings):
        faults = list(_faults(settings, path, store))
        yield from faults
        if faults or store.kind == "memory":
            continue
        owner = taken.setdefault(database_path(store), path)
        if owner != path:
            yield Problem(
                path=(*path, "path"),
                value=shown(str(database_path(store))),
                what=f"is where {dotted(owner)} keeps its tasks already",
                remedy="Give each store a path of its own, or leave the agent's store out to "
                "share the one in [store].",
            )


def _stores(settings: Settings) -> Iterator[tuple[Path, StoreSettings]]:
    owns = {handle: agent.store for handle, agent in settings.agents.items()}
    if not owns or None in owns.values():
        yield ("store",), settings.store
    for handle, store in owns.items():
        if store is not None:
            yield ("agents", handle, "store"), store


def _faults(settings: Settings, path: Path, store: StoreSettings) -> Iterator[Problem]:
    if store.adopt_as and (store.kind != "json-file" or store.adopt_as not in settings.auth.keys):
        yield Problem(
            path=(*path, "adopt_as"),
            value=shown(store.adopt_as),
            what="expected the name of a key in [auth.keys], for a store of kind json-file",
            remedy="Leave it out, or name the caller who is to see those tasks.",
            reads=(("auth",),),
        )
    if store.kind != "json-file":
        return
    if not store.path:
        yield Problem(path=(*path, "path"), what="missing", remedy=EXAMPLE)
    elif not File(store.path).is_absolute():
        yield Problem(
            path=(*path, "path"),
            value=shown(store.path),
            what="expected an absolute path of a folder",
            remedy=EXAMPLE,
        )
    if store.synchronous != "full":
        yield Problem(
            path=(*path, "synchronous"),
            value=shown(store.synchronous),
            what="a json-file store always writes through to the disk",
            remedy='Leave it out, or use kind = "sqlite".',
        )
