"""`Standby`: follows a server, and takes its place."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGQUIT

import psycopg
from psycopg.conninfo import conninfo_to_dict
from tests.postgres.server import PostgresServer, embedded_binaries


class Standby:
    def __init__(self, primary: PostgresServer, folder: Path, *, way: str = "") -> None:
        """`way`: host and port over which it follows, unless by the socket of the server."""
        self._primary = primary
        self.folder = folder
        self._data = folder / "data"
        # A copy that the user of the server may read, if there is one.
        copies = [path.parent for path in primary.folder.rglob("bin/postgres")]
        self._binaries = [*copies, embedded_binaries()][0]
        if primary._user is not None:
            shutil.chown(folder, primary._user)
        self._run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-R", "-c", "fast")
        follows = f"user=postgres {way or f'host={primary.folder}'}"
        self._process = subprocess.Popen(
            [
                *(str(self._binaries / "postgres"), "-D", str(self._data), "-k", str(folder)),
                *("-c", "listen_addresses=", "-c", "max_connections=200"),
                *("-c", f"primary_conninfo={follows}"),
            ],
            cwd=folder,
            stderr=subprocess.DEVNULL,
            user=primary._user,
            group=primary._user,
        )

    def _run(self, program: str, *options: str) -> None:
        command = [str(self._binaries / program), *options, "-D", str(self._data)]
        user = self._primary._user
        subprocess.run(
            command, check=True, cwd=self.folder, user=user, group=user, stdout=subprocess.DEVNULL
        )

    def catch_up(self) -> None:
        """Return when it has all commits that there are now."""
        with psycopg.connect(self._primary.url("postgres"), autocommit=True) as connection:
            now = "SELECT pg_current_wal_lsn()::text"
            [(position,)] = connection.execute(now).fetchall()
            is_there = "SELECT FROM pg_stat_replication WHERE replay_lsn >= %s::pg_lsn"
            while not connection.execute(is_there, [position]).fetchall():
                pass

    def promote(self) -> None:
        """End the primary without a word, and take its place."""
        self._primary.kill()
        self._run("pg_ctl", "promote")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def close(self) -> None:
        self._process.send_signal(SIGQUIT)
        self._process.wait()


@contextmanager
def with_standby(
    primary: PostgresServer, url: str, *, way: str = ""
) -> Iterator[tuple[str, Standby]]:
    """A database of the primary at two addresses, one of which takes changes."""
    folder = Path(tempfile.mkdtemp(prefix="trunkline-standby-"))
    standby = Standby(primary, folder, way=way)
    try:
        hosts = f"{primary.folder},{folder}"
        yield f"postgresql://postgres@/{conninfo_to_dict(url)['dbname']}?host={hosts}", standby
    finally:
        standby.close()
        shutil.rmtree(folder)
