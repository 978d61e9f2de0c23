"""`Invocation`: one run of a command that calls an agent, from its flags to its exit code."""

import functools
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, ParamSpec, TypeAlias, cast

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from trunkline.cli import options
from trunkline.cli.exit_codes import Exit, complain, wants_traceback
from trunkline.cli.options import ConfigFlags, is_typed
from trunkline.cli.output import one_line, prepare_streams, program
from trunkline.cli.usage import parameters_of, set_parameters
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.cli.remote.screen import PlainScreen
    from trunkline.model.card import AgentCard
    from trunkline.remote import RemoteAgent, Target

P = ParamSpec("P")
Work: TypeAlias = Coroutine[Any, Any, Exit]
_TRANSPORTS = {"jsonrpc": "JSONRPC", "http": "HTTP+JSON"}


class AgentFlags(Struct, frozen=True, kw_only=True):
    """The flags of all commands that call an agent."""

    output: options.ResultOutput = "text"
    files: ConfigFlags = ConfigFlags()
    protocol: Annotated[
        Literal["jsonrpc", "http"] | None,
        typer.Option(
            help="Use only this binding: JSON-RPC or HTTP+JSON.",
            show_default="chosen from the card",
        ),
    ] = None
    a2a_version: Annotated[
        Literal["1.0", "0.3"] | None,
        typer.Option(
            "--a2a-version", help="Use only this A2A version.", show_default="chosen from the card"
        ),
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="'NAME: VALUE'",
            help="Header to send with every request. Repeatable.",
        ),
    ] = None
    token: Annotated[
        str,
        typer.Option(
            envvar="TRUNKLINE_TOKEN",
            metavar="TOKEN",
            help="Bearer token. From the environment, used only for targets without a credential.",
            show_default=False,
            callback=options.not_empty,
        ),
    ] = ""
    timeout: Annotated[
        float | None,
        options.seconds_option("Stop waiting after this time. The task continues.", default="none"),
    ] = None
    quiet: options.Quiet = False
    verbose: options.Verbose = False


class Invocation(Struct, kw_only=True):
    # The target as it was typed: an alias or an address.
    named: str
    target: "Target"
    flags: AgentFlags = AgentFlags()
    debug: bool = False
    # Flags that a further command for the same target needs too, quoted for the shell.
    repeated: tuple[str, ...] = ()
    # Errors before the card was fetched are explained as errors of the address.
    has_card: bool = False
    is_sent: bool = False
    task_id: str = ""
    screen: "PlainScreen | None" = None

    @property
    def is_json(self) -> bool:
        return self.flags.output == "json"

    def command(self, verb: str, *rest: str, says: bool = False) -> str:
        """A line for the shell that continues this call; `says`: with a text to fill in.

        An agent chooses its ids, so every word is quoted and free of control characters.
        """
        words = [shlex.quote(one_line(word)) for word in (program(), verb, self.named, *rest)]
        return " ".join([*words, *(['"…"'] if says else []), *self.repeated])

    def open_screen(self, *, shows_stream: bool, waiting_for: str) -> "PlainScreen":
        from trunkline.cli.remote.screen import screen_for

        flags = self.flags
        self.screen = screen_for(
            output=flags.output,
            quiet=flags.quiet,
            verbose=flags.verbose,
            shows_stream=shows_stream,
        )
        self.screen.wait(f"asking {one_line(self.named)} for {waiting_for}")
        return self.screen

    @asynccontextmanager
    async def agent(self) -> "AsyncIterator[tuple[RemoteAgent, AgentCard]]":
        """The agent and its card. Raises RemoteError, and TimeoutError."""
        import asyncio

        from trunkline.cli.remote.addresses import other_way
        from trunkline.remote import Limits, RemoteAgent, Target, connect

        # A command has no other call to make, so it waits about a minute for an agent that
        # restarts. Silence on the stream of a known task leads to a new connection.
        limits = Limits(
            call_s=600.0, idle_s=120.0, stream_s=30 * 86_400.0, reconnects=12, circuit_failures=1000
        )
        # `--timeout` is reached before the limit of a single call.
        for_calls_s = None if self.flags.timeout is None else self.flags.timeout + 1

        def open_agent(target: Target) -> RemoteAgent:
            return connect(target, limits=limits, timeout_s=for_calls_s)

        async with asyncio.timeout(self.flags.timeout), AsyncExitStack() as stack:
            agent = await stack.enter_async_context(open_agent(self.target))
            card, other = await other_way(agent, open_agent)
            if other is not None:
                agent = await stack.enter_async_context(open_agent(other))
            self.has_card = True
            yield agent, card

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
            if not self.flags.quiet:
                print(self._detached(), file=sys.stderr)
            return Exit.INTERRUPTED
        except TimeoutError:
            if self.flags.timeout is None:
                raise
            complain(f"no answer within {self.flags.timeout:g} s. {self._detached()}")
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
        target, flags = given.pop("target"), given.pop("flags")
        _check_texts(given)
        call = invocation_of(invocation, target, flags)
        return call.run(cast("Callable[..., Work]", command)(call, **given))

    context, target, flags = parameters_of(invocation_of)
    _, *own = parameters_of(command)
    set_parameters(run, [context, target, *own, flags])
    return run


def invocation_of(
    invocation: typer.Context, target: options.TargetArgument, flags: AgentFlags
) -> Invocation:
    """Raises ConfigError."""
    from trunkline.cli.remote.addresses import target_of
    from trunkline.remote import Bearer, InvalidTarget
    from trunkline.remote.target import merged

    found, repeated = target_of(target, flags.files), list[str]()
    if flags.files.config is not None and is_typed(invocation, "config"):
        repeated += ["--config", shlex.quote(str(flags.files.config))]
    if flags.files.openclaw_config is not None:
        repeated += ["--openclaw-config", shlex.quote(str(flags.files.openclaw_config))]
    if flags.protocol is not None:
        found = replace(found, transports=(_TRANSPORTS[flags.protocol],))
        repeated += ["--protocol", flags.protocol]
    if flags.a2a_version is not None:
        found = replace(found, version=flags.a2a_version)
        repeated += ["--a2a-version", flags.a2a_version]
    if flags.token and (found.credentials is None or is_typed(invocation, "token")):
        found = replace(found, credentials=Bearer(flags.token))
        repeated += ["--token", "…"] if is_typed(invocation, "token") else []
    for one in flags.header or ():
        name, colon, value = map(str.strip, one.partition(":"))
        if not colon or not name:
            # The error does not repeat the text, which may be a key.
            raise ConfigError("-H: expected 'NAME: VALUE', with a colon between the two.")
        found = replace(found, headers=merged(found.headers, {name: value}))
        repeated += ["-H", f"'{name}: …'"]
    found = with_session(found)
    try:
        found.check()
    except InvalidTarget as error:
        raise ConfigError(f"{error.message}.") from None
    return Invocation(
        named=target,
        target=found,
        flags=flags,
        debug=wants_traceback(invocation),
        repeated=tuple(repeated),
    )


def with_session(target: "Target") -> "Target":
    """The target with the session of `trunkline login`, where it has no credential of its own.
    Raises ConfigError."""
    from trunkline.cli.remote.sessions import Sessions
    from trunkline.clock import SystemClock
    from trunkline.remote import Bearer

    has_own = target.credentials is not None or any(
        name.lower() in ("authorization", "x-api-key", "cookie") for name in target.headers
    )
    # The credentials of a target go to its trusted origins as well, and a session must not.
    if has_own or target.trusted_origins:
        return target
    session = Sessions().for_address(target.url, now_ms=SystemClock().now_ms())
    return target if session is None else replace(target, credentials=Bearer(session.token))


def _check_texts(given: Mapping[str, Any]) -> None:
    """Refuse words that are not UTF-8, except the names of files. Raises ConfigError."""
    for name, value in given.items():
        if isinstance(value, Struct):
            _check_texts(asdict(value))
        for text in value if isinstance(value, list) else (value,):
            if not isinstance(text, str) or (name == "file" and "://" not in text):
                continue
            try:
                # Python passes other bytes of the command line on as lone surrogates.
                text.encode()
            except UnicodeEncodeError:
                raise ConfigError(f"{name.upper().strip('_')} is not UTF-8 text.") from None
