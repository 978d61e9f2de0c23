"""`trunkline doctor`."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.exits import Exit
from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, Form, OpenClawConfig
from trunkline.cli.remote import options
from trunkline.cli.storage import ConfigOption, DataOption, DbOption
from trunkline.cli.typed import seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.app.doctor import Examined
    from trunkline.settings import Settings

_SIGNS = {"ok": ("✓", "32"), "warning": ("!", "33"), "error": ("✗", "31")}


def doctor(
    context: typer.Context,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    db: DbOption = None,
    output: options.Output = Form.text,
    timeout: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="SECONDS", help="Maximum time for a target to answer."
        ),
    ] = 15.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only problems.")] = False,
    debug: Debug = False,
) -> None:
    """Check everything that a configuration needs, and name the remedy for each problem.

    Checks the port, the store, the code, program or server behind each agent, and the targets.
    The exit code is 1 if there is an error; warnings do not count.
    """
    from trunkline.cli.remote.ending import prepare_streams

    prepare_streams()
    with reported(context):
        from trunkline.cli.db import settings_of

        settings = settings_of(config, openclaw_config, data, db)
        found = asyncio.run(_collect(settings, timeout, shows=output is Form.text, quiet=quiet))
    if output is Form.json:
        from trunkline.cli.remote.documents import document

        rows = [{"part": one.part, **_fields(one)} for one in found]
        print(document({"findings": rows}))
    else:
        counts = [sum(one.finding.level == level for one in found) for level in _SIGNS]
        print(summary(counts))
    has_error = any(one.finding.level == "error" for one in found)
    raise typer.Exit(Exit.FAILED if has_error else Exit.DONE)


def summary(counts: list[int]) -> str:
    """`counts`: of each level, in the order of `_SIGNS`."""
    ok, warnings, errors = counts
    return f"{ok} ok, {_counted(warnings, 'warning')}, {_counted(errors, 'error')}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


async def _collect(
    settings: "Settings", timeout_s: float, *, shows: bool, quiet: bool
) -> "list[Examined]":
    found = []
    async for one in _examine(settings, timeout_s):
        found.append(one)
        if shows and not (quiet and one.finding.level == "ok"):
            print(_line(one), flush=True)
    return found


async def _examine(settings: "Settings", timeout_s: float) -> "AsyncIterator[Examined]":
    from trunkline.app.doctor import Examined, examine
    from trunkline.app.outbound import tool_config
    from trunkline.cli.remote.targets import check_targets
    from trunkline.ports.doctor import Finding

    async for one in examine(settings):
        yield one
    for target in await check_targets(tool_config(settings).targets, timeout_s):
        finding = Finding("ok", f"{target.url} is {target.name}")
        if target.error:
            finding = Finding("error", target.error)
        yield Examined(f"targets.{target.alias}", finding)


def _line(one: "Examined") -> str:
    import os
    import sys

    from trunkline.cli.remote.clean import one_line

    sign, colour = _SIGNS[one.finding.level]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        sign = f"\x1b[{colour}m{sign}\x1b[0m"
    what, *more = filter(None, map(one_line, one.finding.what.splitlines()))
    text = f"{sign} {one_line(one.part)}: {what}"
    # Why code cannot be imported takes some lines, which make sense as lines alone.
    text += "".join(f"\n    {line}" for line in more)
    return f"{text.rstrip('.')}. {one_line(one.finding.remedy)}" if one.finding.remedy else text


def _fields(one: "Examined") -> dict[str, str]:
    import msgspec

    fields: dict[str, str] = msgspec.to_builtins(one.finding)
    return fields
