"""`Credential`: a file in the data folder that lets operator commands reach the running gateway.

The gateway writes it when it starts and removes it when it stops. It holds a random token and the
address of a Unix socket. Only the user of the gateway can read it, so a client that knows the token
may give commands. A gateway that was killed leaves its file behind, and no process answers at its
socket.
"""

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from trunkline.model.errors import OperatorRefused

# The path of a Unix socket has at most 103 bytes on macOS and 107 on Linux.
MAX_SOCKET_PATH = 100
_MAX_BYTES = 4096


class Credential(Struct, frozen=True, kw_only=True):
    pid: int
    socket: str
    token: str

    def __repr__(self) -> str:
        return f"Credential(pid={self.pid}, socket={self.socket!r})"


def new_credential(path: Path) -> Credential:
    """A credential with a token of its own, for the gateway of this process."""
    socket = Path(f"{path}.sock")
    if len(os.fsencode(socket)) > MAX_SOCKET_PATH:
        socket = Path(tempfile.mkdtemp(prefix="trunkline-")) / "operator.sock"
    return Credential(pid=os.getpid(), socket=str(socket), token=secrets.token_urlsafe(32))


def write(path: Path, credential: Credential) -> None:
    """Write the file as a whole, in place of one that is there. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{credential.pid}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(credential))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove(path: Path, credential: Credential) -> None:
    """Remove the file, unless another gateway has put its own there meanwhile."""
    with suppress(OSError, OperatorRefused):
        if read(path) == credential:
            path.unlink()
    socket = Path(credential.socket)
    with suppress(OSError):
        socket.unlink()
    if socket.parent != path.parent:
        with suppress(OSError):
            socket.parent.rmdir()


def read(path: Path) -> Credential | None:
    """The credential in the file; None if there is no file. Raises OperatorRefused for a file that
    cannot be read or trusted."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorRefused(
            f"{path}: cannot be read: {error.strerror}. Run the command as the user that runs the "
            "gateway."
        ) from error
    try:
        fault = _fault(os.fstat(fd), path)
        if fault:
            raise OperatorRefused(
                f"{path}: {fault}, so it is not trusted. Delete it and restart the gateway."
            )
        data = os.read(fd, _MAX_BYTES)
    finally:
        os.close(fd)
    try:
        return msgspec.json.decode(data, type=Credential)
    except msgspec.DecodeError:
        raise OperatorRefused(
            f"{path}: is not the credential of a gateway. Delete it and restart the gateway."
        ) from None


def _fault(found: os.stat_result, path: Path) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "is not a file"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return f"other users have access to it (mode {stat.S_IMODE(found.st_mode):04o})"
    # The superuser may give commands to the gateway of another user, whose folder it then is.
    owner = os.geteuid() or path.parent.stat().st_uid
    return "" if found.st_uid == owner else f"belongs to another user (uid {found.st_uid})"
