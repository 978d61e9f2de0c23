"""`call_gateway`: gives a command of an operator to the gateway that runs on a store."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from trunkline.model.errors import ConfigError, OperatorRefused, TrunklineError
from trunkline.server import operator_credential
from trunkline.server.operator_channel import Answer, Request
from trunkline.server.operator_credential import Credential
from trunkline.settings import Settings
from trunkline.settings.stores import (
    StoreSettings,
    database_path,
    operator_path,
    own_folder,
    place_of,
)
from trunkline.stores.locks import holder_of

# A reload opens backends and waits for turns of agents that are replaced while they leave.
ANSWER_S: Final = 120.0


class NotRunning(TrunklineError):
    """No gateway runs on the store, so a command may work on the store by itself."""


# Does a command on the store itself: its settings, the name of the command, and its arguments.
Alone: TypeAlias = Callable[[Settings, str, dict[str, Any]], Coroutine[Any, Any, Any]]


def run_command(
    store: StoreSettings,
    name: str,
    arguments: dict[str, Any],
    *,
    load: Callable[[], Settings],
    alone: Alone,
) -> Any:
    """The result of a command, as JSON has it, of the gateway that runs on the store, or of the
    store itself where none runs; `load` then reads the settings.

    Raises ConfigError, OperatorRefused, StoreError or another TrunklineError.
    """
    try:
        return call_gateway(store, name, arguments)
    except NotRunning:
        settings = load()
    if settings.store.kind == "memory":
        raise ConfigError(
            'store.kind = "memory": what this configuration stores ends with its process, and no '
            "gateway is running. Choose a store that keeps it, or start the gateway"
        )
    return asyncio.run(alone(settings, name, arguments))


def call_gateway(
    store: StoreSettings,
    command: str,
    arguments: dict[str, Any] | None = None,
    *,
    answer_s: float = ANSWER_S,
) -> Any:
    """The result of the command, which may take `answer_s`. Raises NotRunning, ConfigError for a
    fault of the gateway's configuration, and OperatorRefused or TrunklineError for other faults."""
    path = operator_path(store)
    if path is None:
        raise OperatorRefused(
            "a gateway whose tasks are in memory takes no commands, because it has no data folder. "
            "Send its process SIGHUP to reload its configuration."
        )
    credential = operator_credential.read(path)
    if credential is None:
        raise _without_credential(store, path)
    request = Request(credential.token, command, arguments or {})
    answer = _asked(credential, msgspec.json.encode(request) + b"\n", answer_s)
    if answer.failure is None:
        return answer.result
    if answer.failure.kind == "configuration":
        raise ConfigError(answer.failure.message)
    raise OperatorRefused(answer.failure.message)


def _without_credential(store: StoreSettings, path: Path) -> TrunklineError:
    """Why there is no credential: no gateway runs, or one runs without it."""
    try:
        # A PostgreSQL store has no lock on this machine.
        holder = None if store.kind == "postgres" else holder_of(database_path(store))
    except OSError as error:
        return OperatorRefused(
            f"{error.filename}: cannot be opened: {error.strerror}. Run the command as the user "
            "that runs the gateway."
        )
    if holder is None:
        return NotRunning(
            f"no gateway is running on this store ({place_of(store)}){_on_this_machine(store)}. "
            "Name the store of the gateway with --config FILE, --data DIR or --db URL."
        )
    return OperatorRefused(
        f"process {holder or 'unknown'} uses the store ({place_of(store)}), and takes no commands: "
        f"there is no file {path}. If it is a gateway, SIGHUP reloads its configuration, and its "
        "log says why the file is missing."
    )


def _on_this_machine(store: StoreSettings) -> str:
    if store.kind != "postgres":
        return ""
    return f" with its own files in {own_folder(store)} on this machine"


def _asked(credential: Credential, data: bytes, answer_s: float) -> Answer:
    process = f"the gateway (process {credential.pid})"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(answer_s)
        try:
            connection.connect(credential.socket)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning(
                f"no gateway is running on this store: the last one, process {credential.pid}, was "
                "killed. The next start replaces the credential that it left."
            ) from None
        except OSError as error:
            raise OperatorRefused(
                f"{credential.socket}: cannot be reached: {error.strerror}."
            ) from error
        try:
            # A gateway that refuses more clients answers and closes before it reads the request.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            with connection.makefile("rb") as incoming:
                line = incoming.readline()
        except TimeoutError:
            raise OperatorRefused(
                f"{process} has not answered for {answer_s:g} s; its log says what it does."
            ) from None
        except OSError:
            line = b""
    if not line.endswith(b"\n"):
        raise OperatorRefused(f"{process} ended before it answered; its log says why.")
    return msgspec.json.decode(line, type=Answer)
