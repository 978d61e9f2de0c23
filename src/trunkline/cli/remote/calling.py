"""From the flags of a command to an agent that can be called."""

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, cast

import typer
from msgspec import Struct
from msgspec.structs import replace

from trunkline.cli.failures import reported, wants_traceback
from trunkline.cli.options import Debug, Form, OpenClawConfig
from trunkline.cli.program import program
from trunkline.cli.remote import options
from trunkline.cli.remote.clean import one_line
from trunkline.cli.storage import ConfigOption
from trunkline.model.addresses import without_password
from trunkline.model.errors import ConfigError

if TYPE_CHECKING:
    from trunkline.remote import Target

P = ParamSpec("P")
_TRANSPORTS = {options.Protocol.jsonrpc: "JSONRPC", options.Protocol.http: "HTTP+JSON"}


class Call(Struct, frozen=True, kw_only=True):
    """Whom to call, and how to show what comes back."""

    # As it was given: an alias or a url.
    named: str
    target: "Target"
    output: Form = Form.text
    timeout_s: float | None = None
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    # Flags that a further command for the same target needs too, quoted for the shell.
    flags: tuple[str, ...] = ()

    def command(self, verb: str, *rest: str, says: bool = False) -> str:
        """A line to be copied to a shell, which goes on with this; `says`: with a text.

        Ids are what the agent made them, so everything is quoted and nothing of it is shown raw.
        """
        words = [shlex.quote(one_line(word)) for word in (program(), verb, self.named, *rest)]
        return " ".join([*words, *(['"…"'] if says else []), *self.flags])


def calls_agent(command: Callable[Concatenate[Call, P], None]) -> Callable[..., None]:
    """Gives a command the target and the flags that all of these commands have.

    What goes wrong while they are read ends the command like any wrong use.
    """

    @functools.wraps(command)
    def run(invocation: typer.Context, **given: Any) -> None:
        shared = {name: given.pop(name) for name in _SHARED}
        with reported(invocation):
            _check_texts(given)
            call = call_of(invocation, **shared)
            cast("Callable[..., None]", command)(call, **given)

    own = list(inspect.signature(command).parameters.values())[1:]
    arguments = [own.pop(0) for one in tuple(own) if _is_argument(one)]
    shared = [one.replace(kind=one.KEYWORD_ONLY) for one in _PARAMETERS.values()]
    target, *rest = shared
    parameters = [_INVOCATION, target, *arguments, *own, *rest]
    keyword = [one.replace(kind=one.KEYWORD_ONLY) for one in parameters]
    cast(Any, run).__signature__ = inspect.Signature(keyword)
    run.__annotations__ = {one.name: one.annotation for one in keyword}
    return run


def call_of(
    invocation: typer.Context,
    target: options.TargetArgument,
    output: options.Output = Form.text,
    config: ConfigOption = None,
    openclaw_config: OpenClawConfig = None,
    protocol: options.ProtocolOption = None,
    a2a_version: options.VersionOption = None,
    header: options.Headers = None,
    token: options.Token = "",
    timeout: options.Timeout = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: Debug = False,
) -> Call:
    """Raises ConfigError."""
    from trunkline.remote import Bearer, InvalidTarget
    from trunkline.remote.target import merged

    found = resolved(target, config, openclaw_config)
    flags: list[str] = []
    if config is not None and _is_flag(invocation, "config"):
        flags += ["--config", shlex.quote(str(config))]
    if openclaw_config is not None:
        flags += ["--openclaw-config", shlex.quote(str(openclaw_config))]
    if protocol is not None:
        found = replace(found, transports=(_TRANSPORTS[protocol],))
        flags += ["--protocol", protocol.value]
    if a2a_version is not None:
        found = replace(found, version=a2a_version.value)
        flags += ["--a2a-version", a2a_version.value]
    if token and (found.credentials is None or _is_flag(invocation, "token")):
        found = replace(found, credentials=Bearer(token))
        flags += ["--token", "…"] if _is_flag(invocation, "token") else []
    for one in header or ():
        name, value = _header(one)
        found = replace(found, headers=merged(found.headers, {name: value}))
        flags += ["-H", f"'{name}: …'"]
    try:
        found.check()
    except InvalidTarget as error:
        raise ConfigError(f"{error.message}.") from None
    return Call(
        named=target,
        target=found,
        output=output,
        timeout_s=timeout,
        quiet=quiet,
        verbose=verbose,
        debug=wants_traceback(invocation),
        flags=tuple(flags),
    )


def resolved(named: str, config: Path | None, openclaw_config: Path | None) -> "Target":
    """The target of that address or alias. Raises ConfigError."""
    from trunkline.cli.remote.addresses import url_of

    if config is not None or openclaw_config is not None:
        from trunkline.app.outbound import target_for
        from trunkline.cli.outbound import calling_settings

        if not named:
            raise ConfigError("TARGET is empty. Give a URL, or the alias of a target.")
        settings = calling_settings(config, openclaw_config)
        return target_for(settings, named if named in settings.targets else url_of(named) or named)
    if "://" in named or url_of(named):
        from trunkline.remote import Target

        return Target(url=url_of(named) or named)
    if any(sign in named for sign in ".:/") or named == "localhost":
        is_local = re.match(r"localhost|127\.|\[::1\]", named) is not None
        scheme = "http" if is_local else "https"
        shown = without_password(named)
        raise ConfigError(f'"{shown}" has no scheme. Did you mean {scheme}://{shown} ?')
    raise ConfigError(
        f'"{named}" is not an address, and no configuration defines this alias. Give a URL such '
        f"as https://agent.example, or --config FILE with a table [targets.{named or 'name'}]."
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        # The text is not repeated: it may be a key.
        raise ConfigError("-H: expected 'NAME: VALUE', with a colon between the two.")
    return name.strip(), value.strip()


def _check_texts(given: Mapping[str, Any]) -> None:
    """Names of files may be any bytes; all other words go into JSON. Raises ConfigError."""
    for name, value in given.items():
        for text in value if isinstance(value, list) else (value,):
            if not isinstance(text, str) or (name == "file" and "://" not in text):
                continue
            if not _is_utf8(text):
                raise ConfigError(f"{name.upper().strip('_')} is not UTF-8 text.")


def _is_utf8(text: str) -> bool:
    """Python lets other bytes of the command line through as halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_flag(invocation: typer.Context, name: str) -> bool:
    source = invocation.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _is_argument(parameter: inspect.Parameter) -> bool:
    about = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(one, typer.models.ArgumentInfo) for one in about)


_INVOCATION, *_rest = inspect.signature(call_of).parameters.values()
_PARAMETERS = {one.name: one for one in _rest}
_SHARED = tuple(_PARAMETERS)
