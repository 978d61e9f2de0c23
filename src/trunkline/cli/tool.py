"""`trunkline tool`."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.exits import Exit
from trunkline.cli.failures import reported
from trunkline.cli.options import Debug, OpenClawConfig
from trunkline.cli.program import program
from trunkline.cli.storage import ConfigOption, DataOption, store_overrides
from trunkline.cli.typed import from_json

if TYPE_CHECKING:
    from trunkline.ports.tools import ToolDefinition
    from trunkline.settings import Settings


class Vendor(StrEnum):
    json = "json"
    openai = "openai"
    anthropic = "anthropic"


# A request that each tool takes as it is.
_EXAMPLES = {"remote_agent": '{"action":"list_targets"}', "a2a_send": '{"message":"Hello"}'}

AllowTargetUrl = Annotated[
    bool,
    typer.Option("--allow-target-url", help="Allow requests to any URL, not only to the targets."),
]


def tool(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of the tool.", show_default=False)
    ] = None,
    request: Annotated[
        str | None,
        typer.Argument(
            metavar="JSON",
            help="The request. With - or nothing it is read from stdin.",
            show_default=False,
        ),
    ] = None,
    list_tools: Annotated[bool, typer.Option("--list", help="List the tools.")] = False,
    schema: Annotated[
        Vendor | None,
        typer.Option(
            help="Print the schema of NAME, or of all tools, as JSON Schema or in the format of "
            "a model vendor.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    data: DataOption = None,
    allow_target_url: AllowTargetUrl = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result, without updates.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Call a tool as a model does and print the result as a JSON envelope.

    Every line on stdout is one envelope. When the request follows a task, its updates are
    printed as they happen, with "phase":"update"; the result is the last line. On a terminal
    the envelopes are indented. Ctrl+C ends the request; the envelope then says how to continue.

    Exit codes: 0 if the result is ok, 2 if the request is wrong, 1 for any other failure, 130
    after Ctrl+C, 141 if the reader of the output is gone.
    """
    with reported(context):
        settings = tool_settings(
            config, openclaw_config, data=data, allow_target_url=allow_target_url
        )
        if list_tools or schema is not None:
            _print_definitions(settings, name, schema)
            raise typer.Exit
        given = _request(settings, name, request)
        code = _call(settings, given[0], given[1], quiet=quiet)
    raise typer.Exit(code)


def tool_settings(
    config: Path | None,
    openclaw_config: Path | None,
    *,
    data: Path | None,
    allow_target_url: bool,
) -> "Settings":
    from trunkline.cli.outbound import calling_settings

    overrides: dict[str, Any] = {}
    if data is not None:
        overrides["store"] = store_overrides(data, None)
    if allow_target_url:
        overrides["remote"] = {"allow_target_url": True}
    return calling_settings(config, openclaw_config, overrides)


def _print_definitions(settings: "Settings", name: str | None, schema: Vendor | None) -> None:
    import json

    from trunkline.app.tools import definitions

    found = definitions(settings)
    if name is not None:
        found = [_named(found, name)]
    if schema is None:
        for each in found:
            print(f"{each.name}  {each.description}")
        return
    shown = [_as(each, schema) for each in found]
    print(json.dumps(shown[0] if name is not None else shown, indent=2, ensure_ascii=False))


def _as(definition: "ToolDefinition", vendor: Vendor) -> dict[str, Any]:
    match vendor:
        case Vendor.openai:
            return definition.as_openai()
        case Vendor.anthropic:
            return definition.as_anthropic()
        case Vendor.json:
            return definition.as_json()


def _named(found: "list[ToolDefinition]", name: str) -> "ToolDefinition":
    from trunkline.config.problems import did_you_mean
    from trunkline.model.errors import ConfigError

    names = [each.name for each in found]
    if name not in names:
        guess = did_you_mean(name, names)
        known = f"There is {', '.join(names)}." if names else "None is on."
        raise ConfigError(f'there is no tool "{name}". {guess}{known}')
    return found[names.index(name)]


def _request(settings: "Settings", name: str | None, given: str | None) -> tuple[str, object]:
    from trunkline.app.tools import definitions
    from trunkline.model.errors import ConfigError

    if name is None:
        raise ConfigError(
            f"name a tool and give it a request: {program()} tool remote_agent "
            f'\'{{"action":"list_targets"}}\'. {program()} tool --list has the names.'
        )
    _named(definitions(settings), name)
    text = _text(given)
    if not text.strip():
        raise ConfigError(
            f"there is no request. Give it as JSON: {program()} tool {name} "
            f"'{_EXAMPLES.get(name, '{}')}', or on stdin."
        )
    return name, from_json(text, what="the request")


def _text(given: str | None) -> bytes:
    if given is not None and given != "-":
        return given.encode(errors="surrogateescape")
    if given is None and sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read()


def _call(settings: "Settings", name: str, request: object, *, quiet: bool) -> int:
    """Returns the exit code."""
    import asyncio

    from trunkline.app.tools import open_tools
    from trunkline.cli.interrupts import call_off_on_interrupt
    from trunkline.cli.outbound import log_quietly

    log_quietly(settings)

    async def call() -> int:
        async with open_tools(settings) as tools:
            with call_off_on_interrupt() as signal:

                def on_update(update: dict[str, Any]) -> None:
                    try:
                        _print_envelope(update)
                    except BrokenPipeError:
                        # Nobody reads on, so nobody waits; the result will say so.
                        signal.set()

                told = None if quiet else on_update
                result = await tools[name].run(request, on_update=told, signal=signal)
                _print_envelope(result)
                return Exit.INTERRUPTED if signal.is_set() else _code(result)

    return asyncio.run(call())


def _code(result: dict[str, Any]) -> int:
    if result["ok"]:
        return 0
    return Exit.WRONG_USE if result["error"]["code"] == "VALIDATION_ERROR" else Exit.FAILED


def _print_envelope(envelope: dict[str, Any]) -> None:
    import json

    indent = 2 if sys.stdout.isatty() else None
    separators = None if indent else (",", ":")
    # A terminal that shows what a peer wrote must not be driven by it; JSON escapes do that.
    ascii_only = sys.stdout.isatty()
    text = json.dumps(envelope, ensure_ascii=ascii_only, indent=indent, separators=separators)
    print(text, flush=True)
