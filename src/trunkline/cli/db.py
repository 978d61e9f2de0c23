"""`trunkline db check | prune | settle`."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import counted, json_document, one_line
from trunkline.cli.usage import command
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.stores.findings import Findings

app = typer.Typer(help="Check and maintain the store of a gateway.", no_args_is_help=True)

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

    Reads all pages of a SQLite database and all files of a json-file folder, compares every
    task with its journal, and looks for references to nothing. A SQLite store may be in use
    by a gateway meanwhile; a json-file folder may not. Ends with 13 if there is damage.
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
