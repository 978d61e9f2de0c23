"""What `trunkline reload` prints."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.app.reload import Reloaded
from trunkline.cli.commands import app
from trunkline.cli.options import StoreFlags
from trunkline.cli.reload import screen
from trunkline.model.errors import ConfigError


def test_every_change_has_a_line() -> None:
    done = Reloaded(
        published=("acme/a", "acme/b"),
        replaced=("acme/c",),
        withdrawn=("acme/d",),
        moved=("acme/e",),
        applied=("auth.keys.alice", "server.log_level"),
        needs_restart=("server.port",),
        failed={"acme/f": 'agents."acme/f".backend: cannot be opened.'},
        notes=("one thing",),
        grace_s=10.0,
    )
    assert screen(done).splitlines() == [
        "Published acme/a, acme/b",
        "Replaced  acme/c; running turns finish as they began",
        "Withdrawn acme/d; running turns have 10 s to finish",
        "Moved     acme/e; their cards name the new addresses",
        "Applied   auth.keys.alice, server.log_level",
        "Restart the gateway to apply server.port.",
        'Failed    agents."acme/f".backend: cannot be opened.',
        "Note: one thing",
    ]
    assert screen(Reloaded()) == "Nothing has changed."


def test_the_flags_say_where_the_gateway_is(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[store]\npath = 'own.db'\n[server]\nprot = 1\n")
    assert StoreFlags(config=file).operator_store().path == str(tmp_path / "own.db")
    assert StoreFlags(config=file, data=tmp_path).operator_store().path == str(
        tmp_path / "trunkline.db"
    )
    own = '[agents."acme/a"]\nname = "A"\nbackend = { kind = "echo" }\nstore = { path = "a.db" }\n'
    file.write_text(f"[store]\npath = 'own.db'\n{own}")
    assert StoreFlags(config=file).operator_store().path == str(tmp_path / "a.db")
    assert StoreFlags(db="memory:").operator_store().kind == "memory"
    assert StoreFlags().operator_store().path == ""
    with pytest.raises(ConfigError, match="no such file"):
        StoreFlags(config=tmp_path / "missing.toml").operator_store()


def test_a_gateway_in_memory_cannot_be_found(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reload", "--db", "memory:"])
    assert done.exit_code == 1
    assert "SIGHUP" in done.stderr
