"""The disk of the database is full under load, and then it is not."""

import asyncio
import random
from pathlib import Path

import psycopg
import pytest
from tests.acceptance.cluster.database import SHORT, config_on, read_postgres
from tests.acceptance.cluster.nodes import Nodes
from tests.acceptance.cluster.test_kills import run
from tests.acceptance.cluster.trial import Trial
from tests.postgres.disk import HAS_MOUNT, Disk, disk
from tests.postgres.fixtures import fill_template
from tests.postgres.server import PostgresServer, embedded_binaries, process_state

# Little of the log is kept, so that it soon wants a file that the disk has no space for.
_SETTINGS = {"max_wal_size": "32MB", "min_wal_size": "32MB"}


class FullDisk:
    def __init__(self, disk: Disk, server: PostgresServer) -> None:
        self._disk = disk
        self._server = server
        self._times = 0
        # How often the database broke off because it could not write its log.
        self.crashes = 0

    def fill(self) -> None:
        """Every second time, until the database crashes."""
        self._disk.fill()
        self._times += 1
        if self._times % 2 == 0:
            self._use_up_the_log()

    def _use_up_the_log(self) -> None:
        while True:
            try:
                self._server.execute("SELECT txid_current(), pg_switch_wal()")
            except psycopg.OperationalError as error:
                # Only a connection that broke off has none.
                if error.sqlstate is None:
                    self.crashes += 1
                    return

    def empty(self) -> None:
        """Give space, and start the server if it has ended."""
        self._disk.empty()
        try:
            self._server.wait_until_ready()
        except AssertionError:
            if process_state(self._server.pid) != "Z":
                raise
            self._server.start()


@HAS_MOUNT
@pytest.mark.root
@pytest.mark.timeout(600)
async def test_nothing_is_lost_when_the_disk_is_full(tmp_path: Path) -> None:
    with disk(megabytes=400) as small:
        server = PostgresServer(embedded_binaries(), _SETTINGS, within=small.folder)
        try:
            url = await asyncio.to_thread(server.create_database, fill_template)
            chance, full = random.Random(9), FullDisk(small, server)
            trial = Trial(
                nodes=Nodes(tmp_path, [config_on(url, SHORT)] * 2, chance),
                read=lambda: read_postgres(url),
                chance=chance,
                disk=full,
            )
            await run(trial, ["full disk"] * 4 + ["kill"] * 2)
            assert "has no space left in its database" in trial.nodes.logs()
            assert full.crashes == 2
        finally:
            server.close()
