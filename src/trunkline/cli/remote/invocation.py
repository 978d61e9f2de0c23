"""`Invocation`: one run of a command that calls an agent, from its flags to its exit code."""

import functools
import inspect
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, cast

import typer
from msgspec import Struct
from msgspec.structs import replace

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain, wants_traceback
from trunkline.cli.options import Form, is_typed
from trunkline.cli.output import one_line, prepare_streams, program
from trunkline.cli.usage import set_parameters
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.cli.remote.screen import PlainScreen
    from trunkline.remote import RemoteAgent, Target

P = ParamSpec("P")
Work: TypeAlias = Coroutine[Any, Any, Exit]
_TRANSPORTS = {"jsonrpc": "JSONRPC", "http": "HTTP+JSON"}


class Invocation(Struct, kw_only=True):
    # The target as it was typed: an alias or an address.
    named: str
    target: "Target"
    output: Form = "text"
    timeout_s: float | None = None
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    # Flags that a further command for the same target needs too, quoted for the shell.
    flags: tuple[str, ...] = ()
    # Errors before the card was fetched are explained as errors of the address.
    has_card: bool = False
    is_sent: bool = False
    task_id: str = ""
    screen: "PlainScreen | None" = None

    @property
    def is_json(self) -> bool:
        return self.output == "json"

    def command(self, verb: str, *rest: str, says: bool = False) -> str:
        """A line for the shell that continues this call; `says`: with a text to fill in.

        An agent chooses its ids, so every word is quoted and free of control characters.
        """
        words = [shlex.quote(one_line(word)) for word in (program(), verb, self.named, *rest)]
        return " ".join([*words, *(['"…"'] if says else []), *self.flags])

    def open_screen(self, *, shows_stream: bool, waiting_for: str) -> "PlainScreen":
        from trunkline.cli.remote.screen import screen_for

        self.screen = screen_for(
            output=self.output, quiet=self.quiet, verbose=self.verbose, shows_stream=shows_stream
        )
        self.screen.wait(f"asking {one_line(self.named)} for {waiting_for}")
        return self.screen

    @asynccontextmanager
    async def agent(self) -> "AsyncIterator[RemoteAgent]":
        """The agent, whose card is known by then. Raises RemoteError, and TimeoutError."""
        import asyncio

        from trunkline.cli.remote.addresses import other_way
        from trunkline.remote import Limits, RemoteAgent, Target, connect

        # A command calls one agent, so giving up early would spare nobody: it waits about a
        # minute for a restart. Silence on the stream of a known task leads to a new connection.
        limits = Limits(
            call_s=600.0, idle_s=120.0, stream_s=30 * 86_400.0, reconnects=12, circuit_failures=1000
        )
        # `--timeout` is reached before the limit of a single call.
        for_calls_s = None if self.timeout_s is None else self.timeout_s + 1

        def open_agent(target: Target) -> RemoteAgent:
            return connect(target, limits=limits, timeout_s=for_calls_s)

        async with asyncio.timeout(self.timeout_s), AsyncExitStack() as stack:
            agent = await stack.enter_async_context(open_agent(self.target))
            if (other := await other_way(agent, open_agent)) is not None:
                agent = await stack.enter_async_context(open_agent(other))
            self.has_card = True
            yield agent

    def run(self, work: Work) -> Exit:
        import asyncio

        from trunkline.cli.remote.failures import explained
        from trunkline.remote import RemoteError

        prepare_streams()
        try:
            try:
                code = asyncio.run(work)
                sys.stdout.flush()
                return code
            finally:
                if self.screen is not None:
                    self.screen.close()
        except KeyboardInterrupt:
            if not self.quiet:
                print(self._detached(), file=sys.stderr)
            return Exit.INTERRUPTED
        except TimeoutError:
            if self.timeout_s is None:
                raise
            complain(f"no answer within {self.timeout_s:g} s. {self._detached()}")
            return Exit.TIMEOUT
        except RemoteError as error:
            if self.debug:
                import traceback

                traceback.print_exception(error)
            code, text = explained(error, self, is_card=not self.has_card)
            complain(text)
            return code

    def _detached(self) -> str:
        if self.task_id:
            return (
                "The task continues.\n"
                f"  Follow it: {self.command('watch', self.task_id)}\n"
                f"  Stop it:   {self.command('cancel', self.task_id)}"
            )
        if self.is_sent:
            return f"The message may have arrived. See: {self.command('list')}"
        return "Nothing was sent."


def agent_command(command: Callable[Concatenate[Invocation, P], Work]) -> Callable[..., Exit]:
    """Give a command the target and the flags of all commands that call an agent.

    The command returns its work, which then runs until it returns the exit code.
    """

    @functools.wraps(command)
    def run(invocation: typer.Context, **given: Any) -> Exit:
        shared = {name: given.pop(name) for name in parameters}
        _check_texts(given)
        call = invocation_of(invocation, **shared)
        return call.run(cast("Callable[..., Work]", command)(call, **given))

    context, *rest = inspect.signature(invocation_of).parameters.values()
    parameters = {one.name: one for one in rest}
    target, *flags = rest
    _, *own = inspect.signature(command).parameters.values()
    # Arguments come before options.
    own.sort(key=lambda one: not _is_argument(one))
    set_parameters(run, [context, target, *own, *flags])
    return run


def _is_argument(parameter: inspect.Parameter) -> bool:
    about = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(one, typer.models.ArgumentInfo) for one in about)


def invocation_of(
    invocation: typer.Context,
    target: options.TargetArgument,
    output: options.ResultOutput = "text",
    config: options.Config = None,
    openclaw_config: options.OpenClawConfig = None,
    protocol: options.ProtocolOption = None,
    a2a_version: options.VersionOption = None,
    header: options.Headers = None,
    token: options.Token = "",
    timeout: options.Timeout = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> Invocation:
    """Raises ConfigError."""
    from trunkline.cli.remote.addresses import target_of
    from trunkline.remote import Bearer, InvalidTarget
    from trunkline.remote.target import merged

    found = target_of(target, config, openclaw_config)
    flags: list[str] = []
    if config is not None and is_typed(invocation, "config"):
        flags += ["--config", shlex.quote(str(config))]
    if openclaw_config is not None:
        flags += ["--openclaw-config", shlex.quote(str(openclaw_config))]
    if protocol is not None:
        found = replace(found, transports=(_TRANSPORTS[protocol],))
        flags += ["--protocol", protocol]
    if a2a_version is not None:
        found = replace(found, version=a2a_version)
        flags += ["--a2a-version", a2a_version]
    if token and (found.credentials is None or is_typed(invocation, "token")):
        found = replace(found, credentials=Bearer(token))
        flags += ["--token", "…"] if is_typed(invocation, "token") else []
    for one in header or ():
        name, colon, value = map(str.strip, one.partition(":"))
        if not colon or not name:
            # The error does not repeat the text, which may be a key.
            raise ConfigError("-H: expected 'NAME: VALUE', with a colon between the two.")
        found = replace(found, headers=merged(found.headers, {name: value}))
        flags += ["-H", f"'{name}: …'"]
    try:
        found.check()
    except InvalidTarget as error:
        raise ConfigError(f"{error.message}.") from None
    return Invocation(
        named=target,
        target=found,
        output=output,
        timeout_s=timeout,
        quiet=quiet,
        verbose=verbose,
        debug=wants_traceback(invocation),
        flags=tuple(flags),
    )


def _check_texts(given: Mapping[str, Any]) -> None:
    """Refuse words that are not UTF-8, except the names of files. Raises ConfigError."""
    for name, value in given.items():
        for text in value if isinstance(value, list) else (value,):
            if not isinstance(text, str) or (name == "file" and "://" not in text):
                continue
            try:
                # Python passes other bytes of the command line on as lone surrogates.
                text.encode()
            except UnicodeEncodeError:
                raise ConfigError(f"{name.upper().strip('_')} is not UTF-8 text.") from None
