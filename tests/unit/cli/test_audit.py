"""`trunkline audit tail | export | verify` on a store that no gateway uses."""

import asyncio
import csv
import hashlib
import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trunkline.cli.audit import COLUMNS, since_ms
from trunkline.cli.commands import app
from trunkline.hub.audit_rows import Line, Row, encode_row
from trunkline.hub.chain_writer import ChainWriter
from trunkline.model.errors import ConfigError
from trunkline.model.timestamps import parse_timestamp
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing import FakeClock, SequentialIds

NOON_MS = parse_timestamp("2026-01-31T12:00:00Z")
HOUR_MS = 3_600_000
ATTEMPT = Row(
    kind="attempt",
    at_ms=NOON_MS,
    id="a1",
    who="user:alice",
    token="tok_1",
    agent="acme/echo",
    operation="SendMessage",
    task_id="task-1",
    question="what is\nthis?",
)
OUTCOME = Row(
    kind="outcome",
    at_ms=NOON_MS + 7,
    id="a1",
    who="user:alice",
    outcome="ok",
    ran_ms=0,
    took_ms=7,
    asked_by="acme/helper",
    chain=("user:carol", "user:bob"),
)
REFUSAL = Row(
    kind="refusal",
    at_ms=NOON_MS + HOUR_MS,
    source="192.0.2.7",
    agent="acme/echo",
    reason="unauthenticated",
    count=3,
)
CHANGE = Row(
    kind="change",
    at_ms=NOON_MS + 2 * HOUR_MS,
    who="@operator",
    action="hub.user.add",
    subject="=user:bob",
    detail="-1 day",
    recovered_from="chain-9",
)
TAIL = """\
2026-01-31T12:00:00.000Z attempt user:alice (tok_1) acme/echo SendMessage task task-1 \
“what is this?”
2026-01-31T12:00:00.007Z outcome user:alice asked by acme/helper ok 7 ms
2026-01-31T13:00:00.000Z refusal 192.0.2.7 acme/echo unauthenticated ×3
2026-01-31T14:00:00.000Z change @operator hub.user.add =user:bob -1 day \
recovered from chain chain-9
"""


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "trunkline.db"

    def audit(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["audit", *words, "--data", str(self.folder)])

    def lines(self, *words: str) -> list[Any]:
        done = self.audit(*words)
        assert (done.exit_code, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def write(self, *batches: Sequence[Row]) -> None:
        """As a start of the gateway writes them: each in a chain of its own."""
        asyncio.run(self._write(batches))

    async def _write(self, batches: Sequence[Sequence[Row]]) -> None:
        store = SqliteStore(self.database)
        await store.open()
        ids = SequentialIds("chain")
        for batch in batches:
            clock = FakeClock(batch[0].at_ms)
            writer = ChainWriter(clock=clock, ids=ids)
            await writer.begin(store)
            assert await writer.append([encode_row(row) for row in batch])
            clock.jump((batch[-1].at_ms - batch[0].at_ms) / 1000)
            await writer.close()
        await store.close()

    def change(self, statement: str, *values: object) -> None:
        """What somebody with access to the file does."""
        with sqlite3.connect(self.database) as db:
            assert db.execute(statement, values).rowcount == 1
        db.close()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.delenv("TRUNKLINE_CONFIG", raising=False)
    return Shell(tmp_path)


@pytest.fixture
def filled(shell: Shell) -> Shell:
    shell.write([ATTEMPT, OUTCOME], [REFUSAL, CHANGE])
    return shell


def test_the_last_rows_are_shown_for_people(filled: Shell) -> None:
    done = filled.audit("tail")
    assert (done.exit_code, done.stdout) == (0, TAIL)
    last = filled.audit("tail", "-n", "1")
    assert last.stdout == TAIL.splitlines(keepends=True)[-1]
    assert filled.audit("tail", "--rows", "0").stdout == ""
    assert filled.audit("tail", "-n", "-1").exit_code == 2


def test_the_last_rows_are_shown_for_programs(filled: Shell) -> None:
    rows = filled.lines("tail", "-o", "json", "-n", "3")
    assert [(row["kind"], row["n"]) for row in rows] == [
        ("outcome", 2),
        ("refusal", 1),
        ("change", 2),
    ]
    assert (rows[0]["tookMs"], rows[1]["count"], rows[2]["recoveredFrom"]) == (7, 3, "chain-9")


def test_a_row_cannot_change_the_terminal_or_add_lines(shell: Shell) -> None:
    shell.write([Row(kind="refusal", at_ms=NOON_MS, agent="x\x1b[2J\ny", reason="r")])
    shown = shell.audit("tail").stdout
    assert len(shown.splitlines()) == 1
    assert "\x1b" not in shown


def test_follow_needs_a_gateway(filled: Shell) -> None:
    done = filled.audit("tail", "--follow")
    assert (done.exit_code, done.stdout) == (15, "")
    assert "no gateway is running on this store" in done.stderr


def test_an_export_has_all_rows_and_can_be_checked_by_its_hashes(filled: Shell) -> None:
    done = filled.audit("export")
    assert done.exit_code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["kind"] for row in rows] == ["attempt", "outcome", "refusal", "change"]
    assert rows[0]["question"] == "what is\nthis?"
    lines = done.stdout.splitlines()
    for before, line in ((rows[0], lines[1]), (rows[2], lines[3])):
        content, _, stated = line.rpartition(',"hash":"')
        own = hashlib.sha256((before["hash"] + content).encode()).hexdigest()
        assert own == stated.removesuffix('"}')


def test_an_export_can_begin_at_a_time(filled: Shell) -> None:
    def kinds(since: str) -> list[str]:
        return [row["kind"] for row in filled.lines("export", "--since", since)]

    assert kinds("2026-01-31") == ["attempt", "outcome", "refusal", "change"]
    assert kinds("2026-01-31T12:30:00Z") == ["refusal", "change"]
    assert kinds("2026-01-31T15:00:00+01:00") == ["change"]
    assert kinds("2999-01-01") == []
    assert (
        filled.audit("export", "--since", "2999-01-01", "--format", "csv").stdout.count("\n") == 1
    )


def test_a_table_has_a_column_for_every_member_of_a_row() -> None:
    members = {"time" if name == "at_ms" else name for name in Line.__struct_fields__}
    # A chain of principals; `chain` is that of the rows.
    assert members | {"acts_for"} == set(COLUMNS)


def test_an_export_as_a_table_is_no_program_for_spreadsheets(filled: Shell) -> None:
    done = filled.audit("export", "--format", "csv")
    assert done.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["n"], row["kind"], row["time"]) for row in rows] == [
        ("1", "attempt", "2026-01-31T12:00:00.000Z"),
        ("2", "outcome", "2026-01-31T12:00:00.007Z"),
        ("1", "refusal", "2026-01-31T13:00:00.000Z"),
        ("2", "change", "2026-01-31T14:00:00.000Z"),
    ]
    assert rows[0]["chain"] == rows[1]["chain"] != rows[2]["chain"]
    assert (rows[0]["question"], rows[0]["took_ms"], rows[1]["took_ms"]) == (
        "what is\nthis?",
        "",
        "7",
    )
    change = rows[3]
    assert (change["who"], change["subject"], change["detail"]) == (
        "'@operator",
        "'=user:bob",
        "'-1 day",
    )
    assert (rows[1]["asked_by"], rows[1]["acts_for"]) == ("acme/helper", "user:carol user:bob")
    hashes = [row["hash"] for row in filled.lines("export")]
    assert [row["hash"] for row in rows] == hashes


@pytest.mark.parametrize("since", ["soon", "7w", "-1d", "2026-13-01", "2026-01-31 12:00"])
def test_a_time_that_is_none(filled: Shell, since: str) -> None:
    done = filled.audit("export", "--since", since)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is neither a time nor an age" in done.stderr


def test_ages() -> None:
    assert since_ms("", NOON_MS) == 0
    assert since_ms("30m", NOON_MS) == NOON_MS - HOUR_MS // 2
    assert since_ms("12h", NOON_MS) == NOON_MS - 12 * HOUR_MS
    assert since_ms("7d", NOON_MS) == NOON_MS - 7 * 24 * HOUR_MS
    with pytest.raises(ConfigError):
        since_ms("1y", NOON_MS)


def test_a_whole_audit_is_sound(filled: Shell) -> None:
    done = filled.audit("verify")
    last = filled.lines("export")[-1]["hash"]
    assert done.exit_code == 0, done.output
    counted, newest = done.stdout.splitlines()
    assert counted == "4 rows in 2 chains: sound"
    assert newest.startswith("newest chain chain")
    assert newest.endswith(f", last hash {last}")
    found = json.loads(filled.audit("verify", "-o", "json").stdout)
    assert (found["rows"], found["chains"], found["faults"], found["more"]) == (4, 2, [], 0)
    assert found["hash"] == last


def test_no_audit_is_sound(shell: Shell) -> None:
    done = shell.audit("verify")
    assert (done.exit_code, done.stdout) == (0, "0 rows in 0 chains: sound\n")
    assert shell.lines("export") == []
    assert shell.audit("tail").stdout == ""


def test_a_changed_row_is_named(filled: Shell) -> None:
    chain = json.loads(filled.audit("verify", "-o", "json").stdout)["newest"]
    filled.change(
        "UPDATE records SET body = CAST(replace(CAST(body AS TEXT), 'acme/echo', 'acme/else') "
        "AS BLOB) WHERE kind = 'audit.1' AND scope = ?",
        chain,
    )
    done = filled.audit("verify")
    assert done.exit_code == 1
    fault, counted, newest = done.stdout.splitlines()
    assert fault == f"chain {chain}, row 1: the hash does not fit the row and the hash before it"
    assert counted == "2 rows in 2 chains: 1 fault"
    assert newest.startswith(f"newest chain {chain}, last hash ")
    as_json = filled.audit("verify", "-o", "json")
    assert as_json.exit_code == 1
    (found,) = json.loads(as_json.stdout)["faults"]
    assert (found["chain"], found["number"]) == (chain, 1)


def test_a_row_that_cannot_be_read_is_left_out_of_an_export(filled: Shell) -> None:
    chain = json.loads(filled.audit("verify", "-o", "json").stdout)["newest"]
    filled.change("UPDATE records SET body = x'00' WHERE kind = 'audit.1' AND scope = ?", chain)
    assert [row["kind"] for row in filled.lines("export")] == ["attempt", "outcome"]
    assert len(filled.audit("tail").stdout.splitlines()) == 2
    assert filled.audit("verify").exit_code == 1


def test_missing_rows_and_chains_are_named(filled: Shell) -> None:
    chain = json.loads(filled.audit("verify", "-o", "json").stdout)["newest"]
    filled.change("DELETE FROM records WHERE kind = 'audit.1' AND scope = ?", chain)
    done = filled.audit("verify")
    assert done.exit_code == 1
    assert f"chain {chain}, row 1: rows 1 to 2 are missing at the end" in done.stdout
    filled.change("DELETE FROM records WHERE kind = 'audit-chain.1' AND id = ?", chain)
    done = filled.audit("verify")
    assert done.exit_code == 1
    assert f"chain {chain}, the chain is missing; the list of chains names it" in done.stdout
    assert f"newest chain {chain}, last hash unknown" in done.stdout


def test_a_damaged_list_of_chains_is_a_fault_without_a_place(filled: Shell) -> None:
    filled.change("UPDATE records SET body = x'00' WHERE kind = 'audit-tip.1'")
    done = filled.audit("verify")
    assert done.exit_code == 1
    assert "the record that names the newest chain is damaged" in done.stdout.splitlines()
    assert "newest chain " not in done.stdout.replace("the newest chain", "")


def test_many_faults_are_counted(shell: Shell) -> None:
    shell.write(*[[OUTCOME]] * 103)
    with sqlite3.connect(shell.database) as db:
        db.execute("DELETE FROM records WHERE kind = 'audit.1'")
    db.close()
    done = shell.audit("verify")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[100:102] == ["and 3 more", "0 rows in 103 chains: 103 faults"]


def test_an_audit_in_memory_is_that_of_its_gateway(shell: Shell) -> None:
    file = shell.folder / "trunkline.toml"
    file.write_text('[hub]\n[store]\nkind = "memory"\n')
    for words in (["tail"], ["export"], ["verify"]):
        done = CliRunner().invoke(app, ["audit", *words, "--config", str(file)])
        assert done.exit_code in (1, 2)
        assert done.stdout == ""
        assert "in memory" in done.stderr


def test_a_file_that_needs_the_environment_of_the_gateway(shell: Shell) -> None:
    """Where the gateway does not run, nothing can stand in for it."""
    file = shell.folder / "trunkline.toml"
    file.write_text('[hub]\n[auth.keys.admin]\nkey = "${NO_SUCH_VARIABLE}"\n')
    done = shell.audit("verify", "--config", str(file))
    assert done.exit_code == 2
    assert "NO_SUCH_VARIABLE" in done.stderr
