"""Which keys of a file that was read again a running gateway takes over."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.settings.documents import KEY, made

from trunkline.settings import Settings
from trunkline.settings.changes import NEEDS_RESTART, compare

OTHER: dict[str, dict[str, Any]] = {
    "server": {
        "host": "localhost",
        "port": 1,
        "heartbeat_s": 1.0,
        "stream_buffer_events": 5,
        "log_level": "debug",
        "drain_s": 1.0,
    },
    "store": {"kind": "memory"},
    "auth": {"keys": {"alice": {"key": KEY}}, "anonymous": "loopback"},
    "targets": {"support": {"base_url": "https://support.example"}},
    "remote": {"mcp": True, "timeout_s": 5.0},
    "network": {"allow_private_addresses": True},
}


def test_keys_are_taken_over_or_named_as_those_that_need_a_restart() -> None:
    running = made(store={"path": "/srv/t.db"})
    found = compare(made(**OTHER), running)
    assert found.needs_restart == (
        "server.host",
        "server.port",
        "server.stream_buffer_events",
        "server.heartbeat_s",
        "store.kind",
        "store.path",
        "remote.mcp",
    )
    assert found.applied == (
        "server.drain_s",
        "server.log_level",
        "auth.keys.alice",
        "auth.anonymous",
        "targets.support",
        "remote.timeout_s",
        "network.allow_private_addresses",
    )
    assert found.settings.store == running.store
    assert (found.settings.server.host, found.settings.server.port) == ("127.0.0.1", 8642)
    assert found.settings.server.log_level == "debug"
    assert found.settings.remote == replace(running.remote, timeout_s=5.0)


def test_the_same_file_changes_nothing_and_agents_do_not_count() -> None:
    before = made(**OTHER)
    found = compare(replace(made(**OTHER), agents={}), before)
    assert (found.applied, found.needs_restart) == ((), ())
    assert found.settings.agents == {}


@pytest.mark.parametrize("name", sorted(NEEDS_RESTART))
def test_every_key_that_needs_a_restart_exists(name: str) -> None:
    table, _, key = name.partition(".")
    found = getattr(Settings(), table)
    assert not key or hasattr(found, key)


def test_a_change_of_a_secret_is_named_by_its_key_alone() -> None:
    before = made(auth={"keys": {"alice": {"key": KEY}}})
    found = compare(made(auth={"keys": {"alice": {"key": KEY * 2}}}), before)
    assert found.applied == ("auth.keys.alice",)
    assert KEY not in repr(found)
