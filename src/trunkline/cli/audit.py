"""`trunkline audit tail | export | verify`."""

import re
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import msgspec
import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.hub import hub_settings
from trunkline.cli.output import counted, json_document, one_line
from trunkline.cli.usage import command, group
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from trunkline.hub.audit_reading import Records
    from trunkline.hub.audit_rows import Line
    from trunkline.hub.audit_verify import Verified

app = group("Read and check the audit of the hub.")

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
_POLL_S = 1.0
_encode = msgspec.json.Encoder().encode


@command(app, "tail")
def tail(
    flags: options.StoreFlags,
    rows: Annotated[
        int, typer.Option("--rows", "-n", metavar="N", min=0, help="Number of rows.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more rows, until Ctrl+C.")
    ] = False,
    output: options.Output = "text",
) -> Exit:
    """Print the last rows of the audit.

    Rows are written up to a quarter of a second after what they are about. With --follow a gateway
    must be running, and the command ends with 15 if none is.
    """
    import asyncio

    from trunkline.app.operator_client import NotRunning

    def show(line: "Line") -> None:
        print(_encode(line).decode() if output == "json" else text_of(line), flush=True)

    try:
        asyncio.run(_tail(_opener(flags, must_run=follow), rows, follow, show))
    except NotRunning as error:
        complain(error.message)
        return Exit.NOT_RUNNING
    except KeyboardInterrupt:
        pass
    return Exit.DONE


@command(app, "export")
def export(
    flags: options.StoreFlags,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Only rows from this time on: 2026-01-31, 2026-01-31T12:00:00Z, or an age such "
            "as 7d, 12h or 30m.",
            show_default="all rows",
        ),
    ] = "",
    form: Annotated[
        Literal["jsonl", "csv"],
        typer.Option("--format", help="One JSON object or one line of CSV for each row."),
    ] = "jsonl",
) -> None:
    """Print the rows of the audit, chain by chain.

    In JSON a row has its hash, so that the export can be checked without this program: the hash is
    SHA-256 of the hash before and of the line up to `,"hash"`. Each start of a gateway begins a
    chain.
    """
    import asyncio

    from trunkline.clock import SystemClock

    asyncio.run(_export(_opener(flags), since_ms(since, SystemClock().now_ms()), form, sys.stdout))


@command(app, "verify")
def verify(flags: options.StoreFlags, output: options.Output = "text") -> Exit:
    """Check that no row of the audit was changed, removed or moved.

    Reads all rows, of a running gateway or of its store. Rows that `retention_days` has deleted
    are not missed. Prints the newest chain and its last hash: keep them elsewhere to notice later
    that the end of the audit was taken away. Ends with 1 if something does not fit.
    """
    import asyncio

    found = asyncio.run(_verify(_opener(flags)))
    if output == "json":
        print(json_document(found))
    else:
        for fault in found.faults:
            place = f"chain {fault.chain}, " if fault.chain else ""
            row = f"row {fault.number}: " if fault.number else ""
            print(one_line(f"{place}{row}{fault.what}"))
        if found.more:
            print(f"and {found.more} more")
        result = counted(len(found.faults) + found.more, "fault") if found.faults else "sound"
        print(f"{counted(found.rows, 'row')} in {counted(found.chains, 'chain')}: {result}")
        if found.newest:
            print(f"newest chain {found.newest}, last hash {found.hash or 'unknown'}")
    return Exit.DONE if found.is_sound else Exit.FAILED


_Open = Callable[[], "AbstractAsyncContextManager[Records]"]


def _opener(flags: options.StoreFlags, *, must_run: bool = False) -> _Open:
    from trunkline.app.audit_commands import audit_records

    try:
        store = hub_settings(flags).operator_store()
    except ConfigError:
        # The running gateway has the environment that the file refers to.
        store = flags.operator_store()
    return lambda: audit_records(store, load=lambda: hub_settings(flags), must_run=must_run)


async def _verify(opened: _Open) -> "Verified":
    from trunkline.hub.audit_verify import verify as check

    async with opened() as records:
        return await check(records)


async def _tail(opened: _Open, count: int, follow: bool, show: Callable[["Line"], None]) -> None:
    from trunkline.clock import SystemClock
    from trunkline.hub.audit_reading import AuditReader

    async with opened() as records:
        reader = AuditReader(records)
        places = {head.chain: head.last for head in await reader.heads()}
        for head, line in await reader.last(count):
            if line.n <= places.get(head.chain, 0):
                show(line)
        while follow:
            await SystemClock().sleep(_POLL_S)
            for head in await reader.heads():
                if head.last > places.get(head.chain, 0):
                    async for line in reader.rows_of(head.chain, after=places.get(head.chain, 0)):
                        show(line)
                        places[head.chain] = line.n


async def _export(opened: _Open, from_ms: int, form: str, out: TextIO) -> None:
    from trunkline.hub.audit_reading import AuditReader

    async with opened() as records:
        found = AuditReader(records).stored(since_ms=from_ms)
        if form == "csv":
            await _export_csv(found, out)
            return
        async for _, _, stored in found:
            out.write(stored.decode() + "\n")


# A chain of rows has a column, so that of the principals has another name than in JSON.
COLUMNS = (
    *("chain", "n", "time", "kind", "who", "token", "tenant", "source", "agent", "operation"),
    *("binding", "task_id", "context_id", "id", "outcome", "reason", "ran_ms", "took_ms"),
    *("bytes_in", "count", "action", "subject", "detail", "question", "recovered_from"),
    *("asked_by", "acts_for", "is_follow_up", "hash"),
)


async def _export_csv(found: AsyncIterator[tuple[str, "Line", bytes]], out: TextIO) -> None:
    import csv

    from trunkline.model.timestamps import format_timestamp

    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    async for chain, line, _ in found:
        known = {
            "chain": chain,
            "time": format_timestamp(line.at_ms),
            "acts_for": " ".join(line.chain),
            "is_follow_up": "true" if line.is_follow_up else "",
        }
        cells = [known[name] if name in known else getattr(line, name) for name in COLUMNS]
        writer.writerow([_cell(cell) for cell in cells])


def _cell(value: object) -> str:
    """Without what spreadsheets would take for a formula: some of these texts are the callers'."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def since_ms(text: str, now_ms: int) -> int:
    """A time or an age in milliseconds since the epoch; 0 for none. Raises ConfigError."""
    from trunkline.model.timestamps import parse_timestamp

    if not text:
        return 0
    if age := re.fullmatch(r"(\d{1,9})([mhd])", text):
        return now_ms - int(age[1]) * _UNITS_S[age[2]] * 1000
    try:
        return parse_timestamp(text if "T" in text else f"{text}T00:00:00+00:00")
    except ValueError:
        raise ConfigError(
            f"--since {text!r} is neither a time nor an age. Examples: 2026-01-31, "
            "2026-01-31T12:00:00Z, 7d, 12h."
        ) from None


def text_of(line: "Line") -> str:
    """A row for people."""
    from trunkline.model.timestamps import format_timestamp

    who = line.who or line.source or "-"
    parts = [format_timestamp(line.at_ms), line.kind, who]
    if line.token:
        parts.append(f"({line.token})")
    if line.asked_by:
        parts.append(f"asked by {line.asked_by}")
    parts += [each for each in (line.agent, line.operation, line.action, line.subject) if each]
    if line.task_id:
        parts.append(f"task {line.task_id}")
    parts += [each for each in (line.outcome, line.reason, line.detail) if each]
    if line.took_ms is not None:
        parts.append(f"{line.took_ms} ms")
    if line.count > 1:
        parts.append(f"×{line.count}")
    if line.recovered_from:
        parts.append(f"recovered from chain {line.recovered_from}")
    if line.question:
        parts.append(f"“{line.question}”")
    return one_line("  ".join(parts))
