"""`trunkline db check | prune | settle`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.exits import Exit
from trunkline.cli.failures import reported
from trunkline.cli.help import command
from trunkline.cli.options import Debug, Form, OpenClawConfig, Output
from trunkline.cli.storage import ConfigOption, DataOption, DbOption, store_overrides
from trunkline.cli.typed import whole

if TYPE_CHECKING:
    from trunkline.app.store_maintenance import Pruned
    from trunkline.settings import Settings
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
    context: typer.Context,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    db: DbOption = None,
    output: Output = Form.text,
    debug: Debug = False,
) -> None:
    """Check a store for damage. Nothing is changed.

    Reads all pages of a SQLite database and all files of a json-file folder, compares every
    task with its journal, and looks for references to nothing. A SQLite store may be in use
    by a gateway meanwhile; a json-file folder may not. Ends with 13 if there is damage.
    """
    with reported(context):
        settings = settings_of(config, openclaw_config, data, db)
        from trunkline.app.store_maintenance import check_stores

        found = check_stores(settings)
    if output is Form.json:
        from trunkline.cli.remote.documents import document

        print(document({"sound": all(each.is_sound for each in found), "stores": found}))
    else:
        for each in found:
            _print_findings(each)
    if not all(each.is_sound for each in found):
        raise typer.Exit(Exit.DAMAGED)


def _print_findings(found: "Findings") -> None:
    from trunkline.cli.remote.clean import one_line

    for fault in found.faults:
        place = f"task {fault.task_id}" if fault.task_id else fault.kind
        text = one_line(f"{place}: {fault.what}").rstrip(".")
        print(f"{text}. {fault.remedy}".rstrip())
    if found.more:
        print(f"and {found.more} more")
    problems = len(found.faults) + found.more
    result = "sound" if not problems else f"{problems} problem{'' if problems == 1 else 's'}"
    print(f"{found.path}: {found.tasks} tasks, {found.entries} journal entries, {result}")


@command(app, "prune")
def prune(
    context: typer.Context,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    db: DbOption = None,
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
            parser=whole(0), metavar="N", help="Keep the N tasks of each agent that ended last."
        ),
    ] = None,
    agent: Agent = "",
    dry_run: DryRun = False,
    output: Output = Form.text,
    debug: Debug = False,
) -> None:
    """Delete ended tasks and old answers without a task.

    Without --older-than and --keep, retention_s and retention_max_tasks of each agent decide.
    Unfinished tasks are never deleted. Answers without a task are deleted by age only.
    """
    with reported(context):
        older_than_s = _seconds(older_than) if older_than else None
        settings = settings_of(config, openclaw_config, data, db)
        from trunkline.app.store_maintenance import prune_stores

        done = prune_stores(
            settings, agent=agent, older_than_s=older_than_s, keep=keep, dry_run=dry_run
        )
    if output is Form.json:
        _print_json({"dryRun": dry_run, "agents": [_pruned(each) for each in done]})
        return
    for each in done:
        if each.gone is None:
            print(
                f"{each.agent}: keeps all {_tasks(each.left)}; use --older-than or --keep to "
                "delete some"
            )
        else:
            verb = "would delete" if dry_run else "deleted"
            print(f"{each.agent}: {verb} {_tasks(each.gone.tasks)}, {each.left} left")
            if exchanges := each.gone.exchanges:
                answers = f"{exchanges} answer{'' if exchanges == 1 else 's'} without a task"
                print(f"{each.agent}: {verb} {answers}")
    if not done:
        print("there are no tasks")


@command(app, "settle")
def settle(
    context: typer.Context,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    db: DbOption = None,
    agent: Agent = "",
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason that callers of these tasks see.")
    ] = "",
    dry_run: DryRun = False,
    output: Output = Form.text,
    debug: Debug = False,
) -> None:
    """Fail orphaned tasks: unfinished tasks that no restart continues.

    An agent with on_restart = ["leave_orphaned"] leaves such tasks. Unfinished tasks of an agent
    that is not in the configuration are orphaned too, if --agent names it.
    """
    from trunkline.model.timestamps import format_timestamp

    with reported(context):
        settings = settings_of(config, openclaw_config, data, db)
        from trunkline.app.store_maintenance import settle_stores

        orphans = settle_stores(settings, agent=agent, reason=reason, dry_run=dry_run)
    if output is Form.json:
        rows = [
            {
                "agent": each.agent,
                "task": each.task_id,
                "state": each.state.value,
                "since": format_timestamp(each.status_ms),
            }
            for each in orphans
        ]
        _print_json({"dryRun": dry_run, "failed": rows})
        return
    for each in orphans:
        state = each.state.value.removeprefix("TASK_STATE_").lower()
        print(f"{each.agent}: {each.task_id} {state} since {format_timestamp(each.status_ms)}")
    verb = "would fail" if dry_run else "failed"
    print(f"{verb} {len(orphans)} orphaned task{'' if len(orphans) == 1 else 's'}")


def _pruned(each: "Pruned") -> dict[str, Any]:
    """`deletes`: whether anything says which tasks of the agent to delete."""
    gone = each.gone
    return {
        "agent": each.agent,
        "deletes": gone is not None,
        "deletedTasks": 0 if gone is None else gone.tasks,
        "deletedAnswers": 0 if gone is None else gone.exchanges,
        "leftTasks": each.left,
    }


def _print_json(document: dict[str, Any]) -> None:
    import json

    print(json.dumps(document, indent=2, ensure_ascii=False))


def settings_of(
    config: Path | None, openclaw_config: Path | None, data: Path | None, db: str | None
) -> "Settings":
    from trunkline.settings import demo, load

    store = store_overrides(data, db)
    overrides = {"store": store} if store else {}
    if openclaw_config is not None:
        from trunkline.settings.openclaw import load_openclaw

        found = load_openclaw(openclaw_config, target=None, config=config, overrides=overrides)
        return found.settings
    return demo(overrides=overrides) if config is None else load(config, overrides=overrides)


def _seconds(text: str) -> float:
    from trunkline.model.errors import ConfigError

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise ConfigError(
            f"--older-than {text}: expected a number with a unit, such as 90s, 30m, 12h or 7d."
        )
    return float(match[1]) * _UNITS[match[2]]


def _tasks(count: int) -> str:
    return f"{count} ended task{'' if count == 1 else 's'}"
