"""What `trunkline nodes` prints."""

from pathlib import Path

from typer.testing import CliRunner

from trunkline.app.nodes import NodeInfo, this_gateway
from trunkline.cli.commands import app
from trunkline.cli.nodes import screen


def test_gateways_that_share_a_store_have_a_line_each() -> None:
    here = NodeInfo(
        node="1f",
        host="one",
        pid=4711,
        release="0.1.0",
        started_ms=0,
        beat_ago_s=0.72,
        lanes=12,
        is_here=True,
    )
    gone = NodeInfo(
        node="6",
        host="two\x1b[1m",
        pid=9,
        release="0.1.0",
        started_ms=0,
        beat_ago_s=7.0,
        lanes=0,
        is_alive=False,
    )
    assert screen([here, gone], "postgres at postgresql://db/x").splitlines() == [
        "NODE  HOST  PID   RELEASE  SINCE                     LAST BEAT  LANES",
        "1f    one   4711  0.1.0    1970-01-01T00:00:00.000Z  0.7 s ago  12     this one",
        "6     two   9     0.1.0    1970-01-01T00:00:00.000Z  7.0 s ago  0      gone",
        "one node, postgres at postgresql://db/x",
    ]


def test_a_store_of_one_process_has_one_node() -> None:
    lines = screen([this_gateway(0)], "sqlite at /x.db").splitlines()
    assert lines[-1] == "one node, sqlite at /x.db"
    assert lines[1].split()[0] == "-"


def test_no_gateway_ends_with_15(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["nodes", "--data", str(tmp_path)])
    assert result.exit_code == 15
    assert "no gateway is running on this store" in result.stderr
