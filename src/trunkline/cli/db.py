"""`trunkline db check | migrate | copy | prune | settle`."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import counted, json_document, one_line
from trunkline.cli.usage import command, group
from trunkline.model.errors import ConfigError
from trunkline.ports.clock import Clock

if TYPE_CHECKING:
    from trunkline.stores.copying import Progress
    from trunkline.stores.findings import Findings

app = group("Check and maintain the store of a gateway.")

Agent = Annotated[
    str, typer.Option(metavar="HANDLE", help="Only this agent.", show_default="all agents")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done without doing it.")
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@command(app, "check")
def check(
    flags: options.StoreFlags,
    output: options.Output = "text",
) -> Exit:
    """Check a store for damage. Nothing is changed.

    Reads all pages of a SQLite database, all files of a json-file folder or all rows of a
    PostgreSQL database, compares every task with its journal, and looks for references to
    nothing. SQLite and PostgreSQL may be in use by gateways meanwhile; a json-file folder may
    not. Ends with 13 if there is damage.
    """
    settings = flags.settings()
    from trunkline.app.store_maintenance import check_stores

    found = check_stores(settings)
    is_sound = all(each.is_sound for each in found)
    if output == "json":
        print(json_document({"sound": is_sound, "stores": found}))
    else:
        for each in found:
            _print_findings(each)
    return Exit.DONE if is_sound else Exit.DAMAGED


def _print_findings(found: "Findings") -> None:
    for fault in found.faults:
        place = f"task {fault.task_id}" if fault.task_id else fault.kind
        text = one_line(f"{place}: {fault.what}").rstrip(".")
        print(f"{text}. {fault.remedy}".rstrip())
    if found.more:
        print(f"and {found.more} more")
    for note in found.notes:
        print(f"note: {note}")
    problems = len(found.faults) + found.more
    result = counted(problems, "problem") if problems else "sound"
    sizes = f"{found.tasks} tasks, {found.entries} journal entries, {found.records} records"
    print(f"{found.path}: {sizes}, {result}")


@command(app, "migrate")
def migrate(flags: options.StoreFlags, output: options.Output = "text") -> None:
    """Bring a store to the format of this release.

    A gateway does the same when it starts. Migrate a PostgreSQL database before you start the
    first gateway of a newer release if the user of the gateways may not change tables; gateways of
    the release before may run meanwhile. A SQLite file or a json-file folder must not be in use.
    """
    settings = flags.settings()
    from trunkline.app.store_maintenance import migrate_stores

    done = migrate_stores(settings)
    if output == "json":
        print(json_document({"stores": done}))
        return
    for each in done:
        print(f"{each.place}: {each.what}")


@command(app, "copy")
def copy(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="Store to copy: sqlite:///FILE, json-file:///FOLDER, postgresql://…, or a "
            "configuration file (.toml), whose [store] is meant.",
        ),
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Empty store to copy to, in the same forms.")
    ],
    output: options.Output = "text",
) -> None:
    """Copy all tasks and records of a store to an empty one of any kind.

    No gateway may use either of them. Afterwards both are read again and compared. A copy that was
    interrupted continues when the same command is run again, and no gateway starts on its target
    before it is complete. The source keeps everything.
    """
    from trunkline.app.store_copy import StorePlace, copy_store
    from trunkline.clock import SystemClock

    from_, to = StorePlace.of(source), StorePlace.of(target)
    copied = copy_store(from_, to, ProgressLines(SystemClock()).report)
    if output == "json":
        print(json_document(copied))
        return
    sizes = f"{counted(copied.tasks, 'task')} and {counted(copied.records, 'record')}"
    print(f"copied {from_.name} to {to.name}: {sizes}, hash {copied.hash}")


class ProgressLines:
    """Prints how far a copy is, on stderr and at most every two seconds."""

    EVERY_S = 2.0

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._step = ""
        self._began_at = self._printed_at = self._now()
        self._began_with = 0

    def report(self, progress: "Progress") -> None:
        now = self._now()
        if progress.step != self._step:
            self._step, self._began_at, self._began_with = progress.step, now, progress.done
        if now - self._printed_at < self.EVERY_S:
            return
        self._printed_at = now
        print(self._line(progress, now - self._began_at), file=sys.stderr, flush=True)

    def _line(self, progress: "Progress", seconds: float) -> str:
        line = f"{progress.step}: {progress.done}"
        if progress.total is not None:
            line += f" of {progress.total}"
        rate = (progress.done - self._began_with) / seconds if seconds else 0
        if rate:
            line += f", {rate:.0f}/s"
            if progress.total is not None:
                line += f", {max(0, progress.total - progress.done) / rate:.0f} s left"
        return line


@command(app, "prune")
def prune(
    flags: options.StoreFlags,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Delete tasks that ended longer ago than this: 90s, 30m, 12h or 7d.",
        ),
    ] = "",
    keep: Annotated[
        int | None,
        typer.Option(
            parser=options.whole(0),
            metavar="N",
            help="Keep the N tasks of each agent that ended last.",
        ),
    ] = None,
    agent: Agent = "",
    dry_run: DryRun = False,
    output: options.Output = "text",
) -> None:
    """Delete ended tasks and old answers without a task.

    Without --older-than and --keep, retention_s and retention_max_tasks of each agent decide.
    Unfinished tasks are never deleted. Answers without a task are deleted by age only.
    """
    older_than_s = _seconds(older_than) if older_than else None
    settings = flags.settings()
    from trunkline.app.store_maintenance import prune_stores

    done = prune_stores(
        settings, agent=agent, older_than_s=older_than_s, keep=keep, dry_run=dry_run
    )
    if output == "json":
        rows = [
            {
                "agent": each.agent,
                # Whether a rule says which tasks of the agent to delete.
                "deletes": each.gone is not None,
                "deletedTasks": 0 if each.gone is None else each.gone.tasks,
                "deletedAnswers": 0 if each.gone is None else each.gone.answers,
                "leftTasks": each.left,
            }
            for each in done
        ]
        print(json_document({"dryRun": dry_run, "agents": rows}))
        return
    for each in done:
        if each.gone is None:
            print(
                f"{each.agent}: keeps all {counted(each.left, 'ended task')}; use --older-than "
                "or --keep to delete some"
            )
            continue
        verb = "would delete" if dry_run else "deleted"
        print(f"{each.agent}: {verb} {counted(each.gone.tasks, 'ended task')}, {each.left} left")
        if each.gone.answers:
            print(f"{each.agent}: {verb} {counted(each.gone.answers, 'answer')} without a task")
    if not done:
        print("there are no tasks")


@command(app, "settle")
def settle(
    flags: options.StoreFlags,
    agent: Agent = "",
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason that callers of these tasks see.")
    ] = "",
    dry_run: DryRun = False,
    output: options.Output = "text",
) -> None:
    """Fail orphaned tasks: unfinished tasks that no restart continues.

    An agent with on_restart = ["leave_orphaned"] leaves such tasks. Unfinished tasks of an agent
    that is not in the configuration are orphaned too, if --agent names it.
    """
    settings = flags.settings()
    from trunkline.app.store_maintenance import settle_stores
    from trunkline.model.timestamps import format_timestamp

    orphans = settle_stores(settings, agent=agent, reason=reason, dry_run=dry_run)
    rows = [
        {
            "agent": each.scope.agent,
            "task": each.task_id,
            "state": each.state.value,
            "since": format_timestamp(each.status_ms),
        }
        for each in orphans
    ]
    if output == "json":
        print(json_document({"dryRun": dry_run, "failed": rows}))
        return
    for row in rows:
        state = row["state"].removeprefix("TASK_STATE_").lower()
        print(f"{row['agent']}: {row['task']} {state} since {row['since']}")
    verb = "would fail" if dry_run else "failed"
    print(f"{verb} {counted(len(orphans), 'orphaned task')}")


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise ConfigError(
            f"--older-than {text}: expected a number with a unit, such as 90s, 30m, 12h or 7d."
        )
    return float(match[1]) * _UNITS[match[2]]
