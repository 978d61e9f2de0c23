"""`PgBouncer`: a real one in transaction mode, on loopback, as an ordinary user."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.postgres.server import DEADLINE_S

# Debian keeps it where ordinary users do not look for programs.
PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
HAS_PGBOUNCER = pytest.mark.skipif(
    PGBOUNCER is None, reason="PgBouncer is not installed: apt-get install pgbouncer"
)
# As the Debian package has it, but for the folders, the users and a pool that is soon full.
_CONFIG = """
[databases]
* = host={server} port=5432
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
logfile = {folder}/log
auth_type = trust
auth_file = {folder}/users
admin_users = postgres
pool_mode = transaction
default_pool_size = {size}
"""


class PgBouncer:
    """Started at once. `kill` and `start` again leave clients without their connections."""

    def __init__(self, server: Path, *, size: int) -> None:
        """`server` is the folder with the socket of the database."""
        assert PGBOUNCER is not None
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="trunkline-pgbouncer-"))
        config = _CONFIG.format(server=server, port=self.port, folder=self.folder, size=size)
        (self.folder / "config").write_text(config)
        (self.folder / "users").write_text('"postgres" ""\n')
        # It refuses to run as root.
        self._user = None if os.geteuid() else pwd.getpwnam("nobody").pw_uid
        if self._user is not None:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self._user, -1)
        self.start()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def transactions(self) -> int:
        """How many there were since the start, those of its administration apart."""
        admin = psycopg.connect(self.url("pgbouncer"), autocommit=True)
        with admin, psycopg.ClientCursor(admin, row_factory=dict_row) as cursor:
            rows = cursor.execute("SHOW STATS").fetchall()
        return sum(row["total_xact_count"] for row in rows if row["database"] != "pgbouncer")

    def start(self) -> None:
        assert PGBOUNCER is not None
        self._process = subprocess.Popen(
            [PGBOUNCER, "-q", str(self.folder / "config")],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
        )
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def pgbouncer(server: Path, *, size: int = 4) -> Iterator[PgBouncer]:
    pooler = PgBouncer(server, size=size)
    try:
        yield pooler
    finally:
        pooler.close()
