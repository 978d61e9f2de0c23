"""`trunkline tool`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from trunkline.cli.exit_codes import Exit
from trunkline.cli.options import ConfigFlags, DataFolder, from_json, store_overrides
from trunkline.cli.output import program
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from trunkline.ports.tools import ToolDefinition
    from trunkline.settings import Settings


Vendor: TypeAlias = Literal["json", "openai", "anthropic"]
# A request that each tool takes as it is.
_EXAMPLES = {"remote_agent": '{"action":"list_targets"}', "a2a_send": '{"message":"Hello"}'}


class ToolFlags(ConfigFlags, frozen=True, kw_only=True):
    data: DataFolder = None
    allow_target_url: Annotated[
        bool,
        typer.Option(
            "--allow-target-url", help="Allow requests to any URL, not only to the targets."
        ),
    ] = False

    def settings(self) -> "Settings":
        """Raises ConfigError."""
        overrides: dict[str, Any] = {**store_overrides(self.data, None)}
        if self.allow_target_url:
            overrides["remote"] = {"allow_target_url": True}
        return self.load_to_call(overrides)


def tool(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the tool.")] = None,
    request: Annotated[
        str | None,
        typer.Argument(
            metavar="JSON",
            help="The request. With - or nothing it is read from stdin.",
        ),
    ] = None,
    list_tools: Annotated[bool, typer.Option("--list", help="List the tools.")] = False,
    schema: Annotated[
        Vendor | None,
        typer.Option(
            help="Print the schema of NAME, or of all tools, as JSON Schema or in the format of "
            "a model vendor.",
        ),
    ] = None,
    *,
    flags: ToolFlags,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result, without updates.")
    ] = False,
) -> Exit:
    """Call a tool as a model does and print the result as a JSON envelope.

    Every line on stdout is one envelope. When the request follows a task, its updates are
    printed as they happen, with "phase":"update"; the result is the last line. On a terminal
    the envelopes are indented. Ctrl+C ends the request; the envelope then says how to continue.

    Exit codes: 0 if the result is ok, 2 if the request is wrong, 1 for any other failure, 130
    after Ctrl+C, 141 if the reader of the output is gone.
    """
    settings = flags.settings()
    if list_tools or schema is not None:
        _print_definitions(settings, name, schema)
        return Exit.DONE
    named, given = _request(settings, name, request)
    return _call(settings, named, given, quiet=quiet)


def log_warnings(settings: "Settings") -> None:
    """Log warnings and errors on stderr, with every secret of the settings masked."""
    from trunkline.config.secret import secrets_in
    from trunkline.server import logs

    logs.configure(level="warning", form="human", secrets=secrets_in(settings))


def _print_definitions(settings: "Settings", name: str | None, schema: Vendor | None) -> None:
    from trunkline.app.tools import definitions
    from trunkline.ports.tools import ToolDefinition

    found = definitions(settings)
    if name is not None:
        found = [_named(found, name)]
    if schema is None:
        for each in found:
            print(f"{each.name}  {each.description}")
        return
    formats = {
        "json": ToolDefinition.as_json,
        "openai": ToolDefinition.as_openai,
        "anthropic": ToolDefinition.as_anthropic,
    }
    shown = [formats[schema](each) for each in found]
    print(json.dumps(shown[0] if name is not None else shown, indent=2, ensure_ascii=False))


def _named(found: "list[ToolDefinition]", name: str) -> "ToolDefinition":
    from trunkline.config.problems import did_you_mean

    names = [each.name for each in found]
    if name not in names:
        guess = did_you_mean(name, names)
        known = f"There is {', '.join(names)}." if names else "None is on."
        raise ConfigError(f'there is no tool "{name}". {guess}{known}')
    return found[names.index(name)]


def _request(settings: "Settings", name: str | None, given: str | None) -> tuple[str, object]:
    from trunkline.app.tools import definitions

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


def _call(settings: "Settings", name: str, request: object, *, quiet: bool) -> Exit:
    import asyncio

    from trunkline.app.tools import open_tools

    log_warnings(settings)

    async def call() -> Exit:
        async with open_tools(settings) as tools:
            with interrupt_event() as interrupted:

                def on_update(update: dict[str, Any]) -> None:
                    try:
                        _print_envelope(update)
                    except BrokenPipeError:
                        # The reader of the updates is gone; the result names the task.
                        interrupted.set()

                result = await tools[name].run(
                    request, on_update=None if quiet else on_update, signal=interrupted
                )
                _print_envelope(result)
                if interrupted.is_set():
                    return Exit.INTERRUPTED
        if result["ok"]:
            return Exit.DONE
        is_wrong_use = result["error"]["code"] == "VALIDATION_ERROR"
        return Exit.WRONG_USE if is_wrong_use else Exit.FAILED

    return asyncio.run(call())


@contextmanager
def interrupt_event() -> "Iterator[asyncio.Event]":
    """An event that the first Ctrl+C or SIGTERM sets; a second one ends the process as usual."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    caught: list[signal.Signals] = []

    def stop() -> None:
        interrupted.set()
        restore()

    def restore() -> None:
        while caught:
            loop.remove_signal_handler(caught.pop())

    for each in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(each, stop)
        except NotImplementedError:
            # Windows: Ctrl+C ends the process as it always does.
            continue
        caught.append(each)
    try:
        yield interrupted
    finally:
        restore()


def _print_envelope(envelope: dict[str, Any]) -> None:
    # On a terminal JSON escapes keep the text of a peer from controlling it.
    is_terminal = sys.stdout.isatty()
    text = json.dumps(
        envelope,
        ensure_ascii=is_terminal,
        indent=2 if is_terminal else None,
        separators=None if is_terminal else (",", ":"),
    )
    print(text, flush=True)
