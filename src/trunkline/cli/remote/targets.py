"""`trunkline targets`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import json_document, one_line, prepare_streams
from trunkline.model.calls import ListTasksRequest
from trunkline.model.errors import ConfigError
from trunkline.model.values import Task

if TYPE_CHECKING:
    from trunkline.remote import Target


class TargetAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A configured target and its answer."""

    alias: str
    url: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default: bool = False
    # None if the target was not asked.
    is_reachable: bool | None = None
    name: str = ""
    tasks: tuple[Task, ...] = ()
    error: str = ""


def targets(
    check: Annotated[
        bool, typer.Option("--check", help="Fetch the card of each target, all at once.")
    ] = False,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="List your latest tasks at all targets.")
    ] = False,
    limit: Annotated[
        int, options.limit_option("With --tasks, maximum number of tasks per target.")
    ] = 10,
    output: options.ResultOutput = "text",
    *,
    files: options.ConfigFlags,
    timeout: Annotated[float, options.seconds_option("Maximum time for an answer.")] = 15.0,
    quiet: options.Quiet = False,
) -> Exit:
    """List the targets of a configuration.

    Other commands accept their aliases. With --check or --tasks, the exit code is that of the
    first target that cannot be called.
    """
    import asyncio

    from trunkline.app.outbound import tool_config

    prepare_streams()
    if files.file is None:
        raise ConfigError(
            "no configuration is given, and it defines targets. Give --config FILE with a table "
            '[targets.name] and its base_url = "https://…", or set TRUNKLINE_CONFIG.'
        )
    configured = tool_config(files.load_to_call()).targets
    if check or tasks:
        asked = ask_targets(configured, timeout, task_limit=limit if tasks else None)
        found, code = asyncio.run(asked)
    else:
        found, code = [_listed(target) for target in configured], Exit.DONE
    if output == "json":
        print(json_document({"targets": found}))
        return code
    if tasks:
        _print_tasks(found, quiet=quiet)
    elif found:
        _print_targets(found, checked=check)
    elif not quiet:
        print("no targets are configured", file=sys.stderr)
    for one in found:
        if one.error and not quiet:
            print(f"{one_line(one.alias)}: {one_line(one.error)}", file=sys.stderr)
    return code


def _listed(target: "Target") -> TargetAnswer:
    return TargetAnswer(
        alias=target.alias,
        url=target.url,
        description=target.description,
        tags=target.tags,
        default=target.default,
    )


async def ask_targets(
    targets: "tuple[Target, ...]", timeout_s: float, *, task_limit: int | None = None
) -> tuple[list[TargetAnswer], Exit]:
    """Ask all targets at once: for their cards, or for the latest tasks up to `task_limit`.

    The code is that of the first target that cannot be called.
    """
    import asyncio

    found = await asyncio.gather(*(_ask(target, timeout_s, task_limit) for target in targets))
    return [one for one, _ in found], next((code for _, code in found if code), Exit.DONE)


async def _ask(
    target: "Target", timeout_s: float, task_limit: int | None
) -> tuple[TargetAnswer, Exit]:
    from trunkline.cli.remote.failures import explained
    from trunkline.cli.remote.invocation import Invocation
    from trunkline.remote import Limits, RemoteError, connect

    limits = Limits(card_s=timeout_s, connect_s=timeout_s, call_s=timeout_s, attempts=1)
    listed, call = _listed(target), Invocation(named=target.url, target=target)
    if task_limit is not None:
        listed = TargetAnswer(alias=target.alias, url=target.url)
        # The time limit of the target is for its answers, which may take long.
        target = replace(target, timeout_s=None)
    try:
        async with connect(target, limits=limits) as agent:
            card = await agent.card()
            call.has_card = True
            if task_limit is not None:
                page = await agent.list(ListTasksRequest(page_size=task_limit, history_length=1))
                return replace(listed, tasks=page.tasks[:task_limit]), Exit.DONE
    except RemoteError as error:
        code, text = explained(error, call, is_card=not call.has_card)
        is_reachable = False if task_limit is None else None
        return replace(listed, is_reachable=is_reachable, error=text), code
    name, about = f"{card.name} {card.version}".strip(), target.description or card.description
    return replace(listed, is_reachable=True, name=name, description=about), Exit.DONE


def _print_targets(found: list[TargetAnswer], *, checked: bool) -> None:
    from trunkline.cli.remote.tables import print_rows

    rows = [
        (
            one.alias + (" (default)" if one.default else ""),
            one.url,
            (one.name or "✗") if checked else ", ".join(one.tags),
            one.description if not one.error else "",
        )
        for one in found
    ]
    print_rows(("ALIAS", "URL", "AGENT" if checked else "TAGS", "ABOUT"), rows)


def _print_tasks(found: list[TargetAnswer], *, quiet: bool) -> None:
    from trunkline.cli.remote.tables import HEADS, print_rows, task_row

    tasks = [(one.alias, task) for one in found for task in one.tasks]
    # The latest first; a task without a time counts as the oldest.
    tasks.sort(key=lambda pair: pair[1].status.timestamp, reverse=True)
    if tasks:
        print_rows(("TARGET", *HEADS), [(alias, *task_row(task)) for alias, task in tasks])
    elif not quiet and not any(one.error for one in found):
        print("no tasks", file=sys.stderr)
