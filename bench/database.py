"""The PostgreSQL of a run: started when the first server needs it, with all of its durability."""

from pathlib import Path

from tests.postgres.server import PostgresServer, embedded_binaries

from bench.process import cpu_s


def _leave_empty(_url: str) -> None:
    """Each server makes its own tables."""


class BenchDatabase:
    def __init__(self) -> None:
        self._server: PostgresServer | None = None

    def new_url(self) -> str:
        """The URL of a new, empty database."""
        if self._server is None:
            self._server = PostgresServer(embedded_binaries(), {"shared_buffers": "256MB"})
        return self._server.create_database(_leave_empty)

    def drop(self, url: str) -> None:
        assert self._server is not None
        self._server.drop_database(url)

    def cpu_s(self) -> float:
        """What the server has used so far, with its processes that serve connections. Those that
        have ended are not counted, so no connection may end inside a window."""
        if self._server is None:
            return 0.0
        pid = self._server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(cpu_s(each) for each in [pid, *map(int, children)])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
