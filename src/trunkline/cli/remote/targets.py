"""`trunkline targets`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from trunkline.cli.exits import Exit
from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, Form, OpenClawConfig
from trunkline.cli.remote import options
from trunkline.cli.storage import ConfigOption
from trunkline.cli.typed import seconds, whole

if TYPE_CHECKING:
    from trunkline.remote import Target


class Checked(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A target, and what its card says now."""

    alias: str
    url: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default: bool = False
    # Those three are there when it was asked.
    is_reachable: bool | None = None
    name: str = ""
    error: str = ""
    exit: Exit = Exit.DONE


def targets(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Fetch the card of each target, all at once.")
    ] = False,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="List your latest tasks at all targets.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            "-n",
            parser=whole(1),
            metavar="N",
            help="With --tasks, maximum number of tasks per target.",
        ),
    ] = 10,
    output: options.Output = Form.text,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    timeout: Annotated[
        float, typer.Option(parser=seconds, metavar="SECONDS", help="Maximum time for an answer.")
    ] = 15.0,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """List the targets of a configuration.

    Other commands accept their aliases. With --check or --tasks, the exit code is that of the
    first target that cannot be called.
    """
    with reported(context):
        configured = _configured(config, openclaw_config)
        if tasks:
            code = _show_tasks(configured, limit, timeout, output=output, quiet=quiet)
            raise typer.Exit(code)
        if check:
            found = asyncio.run(check_targets(configured, timeout))
        else:
            found = [_listed(target) for target in configured]
        _show(found, output=output, quiet=quiet, checked=check)
    raise typer.Exit(next((one.exit for one in found if one.exit), Exit.DONE))


def _configured(config: Path | None, openclaw_config: Path | None) -> "tuple[Target, ...]":
    from trunkline.app.outbound import tool_config
    from trunkline.cli.outbound import calling_settings
    from trunkline.model.errors import ConfigError

    if config is None and openclaw_config is None:
        raise ConfigError(
            "no configuration is given, and it defines targets. Give --config FILE with a table "
            '[targets.name] and its base_url = "https://…", or set TRUNKLINE_CONFIG.'
        )
    return tool_config(calling_settings(config, openclaw_config)).targets


def _listed(target: "Target") -> Checked:
    return Checked(
        alias=target.alias,
        url=target.url,
        description=target.description,
        tags=target.tags,
        default=target.default,
    )


async def check_targets(configured: "tuple[Target, ...]", timeout_s: float) -> list[Checked]:
    return await asyncio.gather(*(_checked(target, timeout_s) for target in configured))


async def _checked(target: "Target", timeout_s: float) -> Checked:
    from msgspec.structs import replace

    from trunkline.cli.remote.calling import Call
    from trunkline.cli.remote.problems import explained
    from trunkline.remote import Limits, RemoteError, connect

    listed = _listed(target)
    limits = Limits(card_s=timeout_s, connect_s=timeout_s, attempts=1)
    try:
        async with connect(target, limits=limits) as agent:
            card = await agent.card()
    except RemoteError as error:
        code, text = explained(error, Call(named=target.url, target=target), is_card=True)
        return replace(listed, is_reachable=False, error=text, exit=code)
    return replace(
        listed,
        is_reachable=True,
        name=f"{card.name} {card.version}".strip(),
        description=target.description or card.description,
    )


def _show(found: list[Checked], *, output: Form, quiet: bool, checked: bool) -> None:
    import sys

    from trunkline.cli.remote.clean import one_line
    from trunkline.cli.remote.documents import document
    from trunkline.cli.remote.ending import prepare_streams
    from trunkline.cli.remote.tables import print_rows

    prepare_streams()
    if output is Form.json:
        import msgspec

        shown = [msgspec.to_builtins(one) for one in found]
        for one in shown:
            one.pop("exit", None)
        print(document({"targets": shown}))
        return
    if not found and not quiet:
        print("no targets are configured", file=sys.stderr)
        return
    heads = ["ALIAS", "URL", *(["AGENT"] if checked else ["TAGS"]), "ABOUT"]
    print_rows(
        heads,
        [
            (
                one.alias + (" (default)" if one.default else ""),
                one.url,
                (one.name or "✗") if checked else ", ".join(one.tags),
                one.description if not one.error else "",
            )
            for one in found
        ],
    )
    for one in found:
        if one.error and not quiet:
            print(f"{one_line(one.alias)}: {one_line(one.error)}", file=sys.stderr)


def _show_tasks(
    configured: "tuple[Target, ...]", limit: int, timeout_s: float, *, output: Form, quiet: bool
) -> Exit:
    from trunkline.cli.remote.across import print_tasks, tasks_at
    from trunkline.cli.remote.documents import document
    from trunkline.cli.remote.ending import prepare_streams

    prepare_streams()
    found, code = asyncio.run(tasks_at(configured, limit=limit, timeout_s=timeout_s))
    if output is Form.json:
        print(document({"targets": found}))
    else:
        print_tasks(found, quiet=quiet)
    return code
