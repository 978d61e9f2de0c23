"""`trunkline doctor`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit
from trunkline.cli.output import counted, has_colours, json_document, one_line, prepare_streams

if TYPE_CHECKING:
    from trunkline.app.doctor import Examined

_SIGNS = {"ok": ("✓", "32"), "warning": ("!", "33"), "error": ("✗", "31")}


def doctor(
    flags: options.StoreFlags,
    output: options.ResultOutput = "text",
    timeout: Annotated[
        float, options.seconds_option("Maximum time for a target to answer.")
    ] = 15.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only problems.")] = False,
) -> Exit:
    """Check everything that a configuration needs, and name the remedy for each problem.

    Checks the port, the store, the code, program or server behind each agent, and the targets.
    The exit code is 1 if there is an error; warnings do not count.
    """
    import asyncio

    import msgspec

    from trunkline.app.doctor import Examined, examine
    from trunkline.app.outbound import tool_config
    from trunkline.cli.remote.targets import ask_targets
    from trunkline.ports.backend import Finding

    prepare_streams()
    settings = flags.settings()
    found: list[Examined] = []

    def add(one: Examined) -> None:
        found.append(one)
        if output == "text" and not (quiet and one.finding.level == "ok"):
            print(_line(one), flush=True)

    async def examine_all() -> None:
        async for one in examine(settings):
            add(one)
        targets, _ = await ask_targets(tool_config(settings).targets, timeout)
        for target in targets:
            finding = Finding("ok", f"{target.url} is {target.name}")
            if target.error:
                finding = Finding("error", target.error)
            add(Examined(f"targets.{target.alias}", finding))

    asyncio.run(examine_all())
    levels = [one.finding.level for one in found]
    if output == "json":
        rows = [{"part": one.part, **msgspec.to_builtins(one.finding)} for one in found]
        print(json_document({"findings": rows}))
    else:
        warnings, errors = levels.count("warning"), levels.count("error")
        print(
            f"{levels.count('ok')} ok, {counted(warnings, 'warning')}, {counted(errors, 'error')}"
        )
    return Exit.FAILED if "error" in levels else Exit.DONE


def _line(one: "Examined") -> str:
    sign, colour = _SIGNS[one.finding.level]
    if has_colours(sys.stdout):
        sign = f"\x1b[{colour}m{sign}\x1b[0m"
    what, *more = filter(None, map(one_line, one.finding.what.splitlines()))
    text = f"{sign} {one_line(one.part)}: {what}"
    # An import error takes several lines, which only make sense as lines.
    text += "".join(f"\n    {line}" for line in more)
    return f"{text.rstrip('.')}. {one_line(one.finding.remedy)}" if one.finding.remedy else text
