"""`Sessions`: the sessions of `trunkline login`, as files in the user's configuration folder.

Each gateway has a file of its own, which only the user can read. A session is sent to the gateway
that gave it and to no other address.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from trunkline.model.errors import ConfigError
from trunkline.model.timestamps import parse_timestamp
from trunkline.remote.errors import RemoteError
from trunkline.remote.http.request import origin_of

_MAX_BYTES: Final = 64 * 1024


class StoredSession(Struct, frozen=True, kw_only=True):
    # The base URL of the gateway, without a slash at the end.
    url: str
    login: str
    token: str
    # RFC 3339
    expires_at: str

    def __repr__(self) -> str:
        return f"StoredSession({self.url!r}, {self.login!r})"

    def covers(self, url: str) -> bool:
        """Whether an address belongs to the gateway: the same origin, and below its path."""
        try:
            if origin_of(url) != origin_of(self.url):
                return False
        except RemoteError:
            return False
        base, path = urlsplit(self.url).path, urlsplit(url).path
        return not base or path == base or path.startswith(f"{base}/")

    def is_current(self, now_ms: int) -> bool:
        try:
            return now_ms < parse_timestamp(self.expires_at)
        except ValueError:
            return False


def config_dir(
    *, environment: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path:
    """The user's configuration folder. It need not exist yet."""
    # The XDG base directory specification says to ignore a relative path.
    xdg = environment.get("XDG_CONFIG_HOME", "")
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "trunkline"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "trunkline"
    if platform == "win32":
        roaming = environment.get("APPDATA", "")
        return (Path(roaming) if roaming else Path.home()) / "trunkline"
    return Path.home() / ".config" / "trunkline"


class Sessions:
    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (config_dir() if folder is None else folder) / "sessions"

    def save(self, session: StoredSession) -> Path:
        """Raises ConfigError."""
        path = self._path(session.url)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(session))
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise ConfigError(f"{path}: cannot be written: {error.strerror}.") from error
        return path

    def at(self, url: str) -> StoredSession | None:
        """The session of the gateway with this base URL. Raises ConfigError for a file that other
        users can read."""
        return self._read(self._path(url))

    def for_address(self, url: str, *, now_ms: int) -> StoredSession | None:
        """A session that may be sent to an address, of the longest base URL. Raises ConfigError."""
        found = [
            session
            for path in self._files()
            if (session := self._read(path)) is not None
            and session.covers(url)
            and session.is_current(now_ms)
        ]
        return max(found, key=lambda session: len(session.url), default=None)

    def all(self) -> list[StoredSession]:
        """Raises ConfigError."""
        found = [self._read(path) for path in self._files()]
        return [session for session in found if session is not None]

    def remove(self, url: str) -> None:
        """Raises ConfigError."""
        path = self._path(url)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be deleted: {error.strerror}.") from error

    def _files(self) -> list[Path]:
        with suppress(OSError):
            return sorted(self._folder.glob("*.json"))
        return []

    def _path(self, url: str) -> Path:
        digest = hashlib.sha256(url.encode()).hexdigest()[:16]
        name = "".join(sign if sign.isalnum() else "-" for sign in urlsplit(url).netloc)[:64]
        return self._folder / f"{name}-{digest}.json"

    def _read(self, path: Path) -> StoredSession | None:
        try:
            fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return None
        try:
            found = os.fstat(fd)
            if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
                raise ConfigError(
                    f"{path}: other users can read this session, so it is not used. Sign out with "
                    "`trunkline logout` and sign in again."
                )
            data = os.read(fd, _MAX_BYTES)
        finally:
            os.close(fd)
        try:
            return msgspec.json.decode(data, type=StoredSession)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
