"""`Namespace`: a network of its own for a database, with a link to it for each node.

Needs root. A cable that is pulled is what no proxy can play: packets are lost, nothing is closed,
and the kernel repeats what was sent for as long as it likes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP

import pytest
from tests.postgres.server import PostgresServer, embedded_binaries

_NAME = "trunkline-tests-"
HAS_NAMESPACES = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root and the command ip: apt-get install iproute2",
)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Link:
    """A cable between this machine and the namespace."""

    def __init__(self, namespace: str, number: int) -> None:
        self._namespace = namespace
        pid = namespace.removeprefix(_NAME)
        near, self._far = f"tl{pid}n{number}", f"tl{pid}f{number}"
        self.host = f"10.203.{number}.1"
        _ip("link", "add", near, "type", "veth", "peer", "name", self._far)
        _ip("link", "set", self._far, "netns", namespace)
        _ip("address", "add", f"10.203.{number}.2/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", namespace, "address", "add", f"{self.host}/30", "dev", self._far)
        self.thaw()

    def freeze(self) -> None:
        """Pull the cable at the database's end."""
        _ip("-n", self._namespace, "link", "set", self._far, "down")

    def thaw(self) -> None:
        _ip("-n", self._namespace, "link", "set", self._far, "up")


class Namespace:
    def __init__(self, links: int) -> None:
        self.name = f"{_NAME}{os.getpid()}"
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.links = [Link(self.name, number) for number in range(links)]

    @contextmanager
    def postgres(self) -> Iterator[PostgresServer]:
        """A server that is reached over the links and, by whoever checks it, by its socket."""
        settings = {"listen_addresses": "*"}
        server = PostgresServer(embedded_binaries(), settings, namespace=self.name)
        try:
            with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 10.203.0.0/16 trust\n")
            server.signal(SIGHUP)
            yield server
        finally:
            server.close()

    def close(self) -> None:
        # Its ends of the links go with it, and so do the others.
        _ip("netns", "delete", self.name)


@contextmanager
def namespace(*, links: int) -> Iterator[Namespace]:
    _remove_those_of_killed_runs()
    made = Namespace(links)
    try:
        yield made
    finally:
        made.close()


def _remove_those_of_killed_runs() -> None:
    folder = Path("/run/netns")
    for path in folder.glob(f"{_NAME}*") if folder.exists() else ():
        if not Path("/proc", path.name.removeprefix(_NAME)).exists():
            _ip("netns", "delete", path.name)
