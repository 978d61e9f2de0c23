"""The guide to reloading names every key of the gateway, as applied or as one for a restart."""

import re
from pathlib import Path

from trunkline.settings.changes import NEEDS_RESTART
from trunkline.settings.server import ServerSettings
from trunkline.settings.targets import RemoteSettings

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reloading.md"


def keys(row: str) -> set[str]:
    """The keys that a row of the table names, with their tables."""
    tables = re.findall(r"`\[(\w+)\]`", row)
    names = re.findall(r"`(\w+)`", row.split("|")[1])
    return {f"{tables[0]}.{name}" for name in names} or set(tables)


def test_the_table_says_of_every_key_whether_it_needs_a_restart() -> None:
    text = GUIDE.read_text()
    table = text.partition("## What is applied, and what needs a restart")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `[")]
    restart = set().union(*(keys(row) for row in rows if "restart" in row.split("|")[2]))
    assert restart == NEEDS_RESTART
    named = set().union(*(keys(row) for row in rows))
    assert {f"server.{name}" for name in ServerSettings.__struct_fields__} <= named
    remote = {f"remote.{name}" for name in RemoteSettings.__struct_fields__}
    assert NEEDS_RESTART & remote == named & remote
