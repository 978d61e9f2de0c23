"""`OperatorChannel`: takes commands of operators on a Unix socket in the data folder.

A client sends one line of JSON with the token of `operator_credential`, the name of a command and
its arguments, and gets one line back. Nothing of this is on the network.
"""

import asyncio
import hmac
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from trunkline.background import BackgroundTasks
from trunkline.model.errors import ConfigError, InvalidParams, OperatorRefused, TrunklineError
from trunkline.server import operator_credential
from trunkline.server.operator_credential import Credential

_log = logging.getLogger("trunkline.operator")

# The longest request, and the time for it to come.
MAX_REQUEST_BYTES: Final = 1024 * 1024
REQUEST_S: Final = 10.0
MAX_CLIENTS: Final = 16

# Takes the arguments of a command and returns a result for JSON.
Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]


Given = TypeVar("Given", bound=Struct)


def arguments_as(kind: type[Given], arguments: dict[str, Any]) -> Given:
    """The arguments of a command as a struct. Raises InvalidParams."""
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise InvalidParams.at(where.rstrip("`").lstrip(".") or "arguments", what) from None


class OperatorCommands:
    """The commands that a running gateway takes, by name."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add(self, name: str, handler: Handler) -> None:
        assert name not in self._handlers, f"two commands are called {name}"
        self._handlers[name] = handler

    async def run(self, name: str, arguments: dict[str, Any]) -> Any:
        """Raises OperatorRefused for a command that the gateway does not have."""
        handler = self._handlers.get(name)
        if handler is None:
            known = ", ".join(sorted(self._handlers)) or "none"
            raise OperatorRefused(
                f"the running gateway has no command {name[:100]!r} (it has: {known}). It may be "
                "of another release than this program; restart it."
            )
        return await handler(arguments)


class Request(Struct, frozen=True):
    token: str
    command: str
    arguments: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Request(command={self.command!r})"


class Failure(Struct, frozen=True):
    # Whose fault it is: the configuration, the command or its credential, or the gateway.
    kind: Literal["configuration", "refused", "failed"]
    message: str


class Answer(Struct, frozen=True, omit_defaults=True):
    result: Any = None
    failure: Failure | None = None


_BUSY = Answer(
    failure=Failure(
        "refused",
        f"the gateway already has {MAX_CLIENTS} clients with operator commands. It closes the "
        f"connection of a client that sends none within {REQUEST_S:g} s; try again then.",
    )
)


class OperatorChannel:
    """Open from `open` to `close`. A gateway without a data folder, or whose folder does not take
    a socket, runs without it, and the log says so."""

    def __init__(self, path: Path | None, commands: OperatorCommands) -> None:
        self._path = path
        self._commands = commands
        self._credential: Credential | None = None
        self._server: asyncio.Server | None = None
        self._clients = 0
        self._tasks = BackgroundTasks("operator commands")

    async def open(self) -> None:
        if self._path is None:
            return
        try:
            await self._open(self._path)
        except (OSError, OperatorRefused) as error:
            reason = error.message if isinstance(error, OperatorRefused) else str(error)
            _log.warning(
                "operator commands do not reach this gateway; SIGHUP reloads its configuration",
                extra={"file": str(self._path), "reason": reason},
            )

    async def _open(self, path: Path) -> None:
        with suppress(OperatorRefused):
            before = operator_credential.read(path)
            if before is not None and await _answers(before.socket):
                raise OSError(f"process {before.pid} takes the commands of this folder")
            if before is not None:
                operator_credential.remove(path, before)
        # A gateway that only relays has no store, which would have made the folder.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        credential = operator_credential.new_credential(path)
        listening = _bound(credential.socket)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listening, limit=MAX_REQUEST_BYTES
            )
        except BaseException:
            listening.close()
            raise
        self._credential = credential
        operator_credential.write(path, credential)

    async def close(self) -> None:
        if self._credential is not None and self._path is not None:
            operator_credential.remove(self._path, self._credential)
        if self._server is not None:
            self._server.close()
        await self._tasks.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._clients >= MAX_CLIENTS:
            writer.write(msgspec.json.encode(_BUSY) + b"\n")
            writer.close()
            return
        self._clients += 1
        try:
            answer = await self._answer(reader)
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client left, or sent nothing in time
        finally:
            self._clients -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        try:
            async with asyncio.timeout(REQUEST_S):
                line = await reader.readuntil(b"\n")
            request = msgspec.json.decode(line, type=Request)
        except (msgspec.DecodeError, UnicodeDecodeError, asyncio.LimitOverrunError):
            return Answer(failure=Failure("refused", "this is not an operator command."))
        if self._credential is None or not hmac.compare_digest(
            request.token.encode("utf-8", "surrogatepass"), self._credential.token.encode()
        ):
            _log.warning("an operator command with another credential was refused")
            message = (
                "the credential is not that of the running gateway; it may have just restarted."
            )
            return Answer(failure=Failure("refused", message))
        _log.info("operator command", extra={"command": request.command})
        # A command that has begun ends by itself, also when its client leaves.
        running = self._tasks.start(self._run(request), name=f"operator {request.command}")
        await asyncio.wait({running})
        if running.cancelled():
            return Answer(failure=Failure("failed", "the gateway is shutting down."))
        return running.result()

    async def _run(self, request: Request) -> Answer:
        try:
            return Answer(result=await self._commands.run(request.command, request.arguments))
        except ConfigError as error:
            return Answer(failure=Failure("configuration", error.message))
        except OperatorRefused as error:
            return Answer(failure=Failure("refused", error.message))
        except TrunklineError as error:
            return Answer(failure=Failure("failed", error.message))
        except Exception:  # noqa: BLE001 - goes to the log; the operator is told where to look
            _log.exception("an operator command failed", extra={"command": request.command})
            message = "the command failed in the gateway; its log has the details."
            return Answer(failure=Failure("failed", message))


def _bound(path: str) -> socket.socket:
    """A socket bound to the path, in place of one that a killed gateway left. Clients can connect
    once it listens."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        os.chmod(path, 0o600)
    except BaseException:
        made.close()
        raise
    return made


async def _answers(path: str) -> bool:
    """Whether a process takes connections at the socket."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True
