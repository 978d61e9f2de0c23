"""`trunkline tool`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trunkline.cli.call_path import join_call_path
from trunkline.cli.exit_codes import Exit, complain
from trunkline.cli.options import ConfigFlags, DataFolder, StoreFlags, from_json, store_overrides
from trunkline.cli.output import program
from trunkline.cli.session import SessionFlags
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

    from trunkline.ports.tools import ToolDefinition
    from trunkline.settings import Settings


# A request that each tool takes as it is.
_EXAMPLES = {
    "remote_agent": '{"action":"list_targets"}',
    "a2a_send": '{"message":"Hello"}',
    "agent_call": '{"agent":"owner/slug","input":"Hello"}',
    "agent_poll": '{"taskId":"…"}',
    "agent_call_batch": '{"calls":[{"agent":"owner/slug","input":"Hello"}]}',
}


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
        join_call_path()
        overrides: dict[str, Any] = {**store_overrides(self.config, self.data, None)}
        if self.allow_target_url:
            overrides["remote"] = {"allow_target_url": True}
        return self.load_to_call(overrides)

    def of_store(self) -> StoreFlags:
        return StoreFlags(config=self.config, openclaw_config=self.openclaw_config, data=self.data)


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
        Literal["json", "openai", "anthropic"] | None,
        typer.Option(
            help="Print the schema of NAME, or of all tools, as JSON Schema or in the format of "
            "a model vendor.",
        ),
    ] = None,
    session: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Session in which an agent asks others, as `session ls` shows it. Programs of "
            "agents leave it out.",
        ),
    ] = "",
    *,
    whose: SessionFlags,
    flags: ToolFlags,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result, without updates.")
    ] = False,
) -> Exit:
    """Call a tool as a model does and print the result as a JSON envelope.

    remote_agent and a2a_send call agents elsewhere, from this program. The others ask agents of the
    gateway that runs: in the session that an operator names with --session, or, for the program of
    an agent, in that of its turn.

    Every line on stdout is one envelope. When the request follows a task, its updates are
    printed as they happen, with "phase":"update"; the result is the last line. On a terminal
    the envelopes are indented. Ctrl+C ends the request; the envelope then says how to continue.

    Exit codes: 0 if the result is ok, 2 if the request is wrong, 1 for any other failure, 10 for a
    token that has ended, 15 if no gateway is running, 130 after Ctrl+C, 141 if the reader of the
    output is gone.
    """
    import asyncio

    from trunkline.app.operator_client import NotRunning
    from trunkline.app.tools import definitions
    from trunkline.cli.session_tool import exit_of_tool, use_in_session
    from trunkline.ports.tools import ToolDefinition
    from trunkline.routing.tools import TOOLS

    settings = flags.settings()
    in_sessions = {name: tool.definition for name, tool in TOOLS.items()}
    found = [*definitions(settings), *in_sessions.values()]
    named = [_named(found, name)] if name is not None else []
    if schema is not None:
        formats = {
            "json": ToolDefinition.as_json,
            "openai": ToolDefinition.as_openai,
            "anthropic": ToolDefinition.as_anthropic,
        }
        shown = [formats[schema](each) for each in named or found]
        print(json.dumps(shown[0] if named else shown, indent=2, ensure_ascii=False))
        return Exit.DONE
    if list_tools:
        for each in named or found:
            print(f"{each.name}  {each.description}")
        return Exit.DONE
    if name is None:
        raise ConfigError(
            f"name a tool and give it a request: {program()} tool remote_agent "
            f'\'{{"action":"list_targets"}}\'. {program()} tool --list has the names.'
        )
    text = _text(request)
    if not text.strip():
        raise ConfigError(
            f"there is no request. Give it as JSON: {program()} tool {name} "
            f"'{_EXAMPLES.get(name, '{}')}', or on stdin."
        )
    given = from_json(text, what="the request")
    if name in in_sessions:
        try:
            result = use_in_session(
                name, given, session=whose.named(session), flags=flags.of_store()
            )
        except NotRunning as error:
            complain(error.message)
            return Exit.NOT_RUNNING
        _print_envelope(result)
        return exit_of_tool(result)
    log_warnings(settings)
    return asyncio.run(_call(settings, name, given, quiet=quiet))


def log_warnings(settings: "Settings") -> None:
    """Log warnings and errors on stderr, with every secret of the settings masked."""
    from trunkline.config.secret import secrets_in
    from trunkline.server import logs

    logs.configure(level="warning", form="human", secrets=secrets_in(settings))


def _named(found: "list[ToolDefinition]", name: str) -> "ToolDefinition":
    from trunkline.config.problems import did_you_mean

    names = [each.name for each in found]
    if name not in names:
        guess = did_you_mean(name, names)
        known = f"There is {', '.join(names)}." if names else "None is on."
        raise ConfigError(f'there is no tool "{name}". {guess}{known}')
    return found[names.index(name)]


def _text(given: str | None) -> bytes:
    if given is not None and given != "-":
        return given.encode(errors="surrogateescape")
    if given is None and sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read()


async def _call(settings: "Settings", name: str, request: object, *, quiet: bool) -> Exit:
    from trunkline.app.tools import open_tools

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


@contextmanager
def interrupt_event() -> "Iterator[asyncio.Event]":
    """An event that the first Ctrl+C or SIGTERM sets; a second one ends the process as usual."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()

    def restore() -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)

    def stop() -> None:
        interrupted.set()
        restore()

    # Windows has no such handlers: Ctrl+C ends the process as it always does.
    with suppress(NotImplementedError):
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stop)
    try:
        yield interrupted
    finally:
        with suppress(NotImplementedError):
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
