"""`compare`: the keys that a running gateway takes over from a file that was read again."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from trunkline.config.problems import dotted
from trunkline.settings.root import Settings

# The keys that need a restart, and the tables all of whose keys do: they are about the socket, the
# stores, and parts that are open for as long as the gateway runs.
NEEDS_RESTART: Final = frozenset(
    {
        "server.host",
        "server.port",
        "server.stream_buffer_events",
        "server.heartbeat_s",
        "server.relay",
        "store",
        "cluster",
        "hub",
        "relay",
        "relay_server",
        "console.enabled",
        "console.wire_bytes",
        "remote.mcp",
        "remote.max_mcp_sessions",
        "remote.max_mcp_sessions_per_caller",
        "remote.mcp_idle_s",
    }
)


class Comparison(Struct, frozen=True):
    # The settings to put in force: those of the file, with the running values of keys that need a
    # restart.
    settings: Settings
    # The keys that changed, outside of the agents.
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def compare(given: Settings, running: Settings) -> Comparison:
    """Compare all tables but those of the agents, which come and go by themselves."""
    applied: list[str] = []
    needs_restart: list[str] = []
    tables: dict[str, Struct | None] = {}
    for table in Settings.__struct_fields__:
        new, old = getattr(given, table), getattr(running, table)
        if isinstance(new, dict):
            applied += _names((table,), new, old) if table != "agents" else ()
            continue
        if isinstance(new, tuple):
            applied += [table] if new != old else []
            continue
        if new is None or old is None:
            # A table that turns a feature on, which only the start does.
            needs_restart += [table] if new != old else []
            tables[table] = old
            continue
        kept: dict[str, Any] = {}
        for key in _changed(asdict(new), asdict(old)):
            if {table, f"{table}.{key}"} & NEEDS_RESTART:
                needs_restart.append(f"{table}.{key}")
                kept[key] = getattr(old, key)
            else:
                applied += _names((table, key), getattr(new, key), getattr(old, key))
        tables[table] = replace(new, **kept)
    return Comparison(replace(given, **tables), tuple(applied), tuple(needs_restart))


def _changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    return [name for name in dict.fromkeys((*new, *old)) if new.get(name) != old.get(name)]


def _names(path: tuple[str, ...], new: object, old: object) -> list[str]:
    """The key, or the keys of the table that it is, such as `auth.keys.alice`."""
    if isinstance(new, dict) and isinstance(old, dict):
        return [dotted((*path, name)) for name in _changed(new, old)]
    return [dotted(path)]
