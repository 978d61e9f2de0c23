"""Damage to the store of a gateway that runs: what callers are told, and what is left."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.acceptance.conftest import eventually
from tests.acceptance.gateway import SOURCE, Gateway, http_client
from tests.acceptance.raw import envelope, message_params

CONFIG = """
[server]
drain_s = 1
[store]
kind = "{kind}"
path = "{path}"
[agents."test/echo"]
name = "Echo"
backend = {{ kind = "echo" }}
"""
HEADERS = {"A2A-Version": "1.0"}


class StoreOf(Gateway):
    """On the store of its configuration."""

    def arguments(self, options: tuple[str, ...]) -> list[str]:
        return ["--config", str(self._config)]


@contextmanager
def gateway_on(folder: Path, path: Path, kind: str) -> Iterator[Gateway]:
    made = StoreOf(folder, CONFIG.format(kind=kind, path=path))
    try:
        yield made.start()
    finally:
        made.clean_up()


class Load:
    """Some who send all the time, and remember which tasks they got."""

    def __init__(self, gateway: Gateway, text: str = "hello") -> None:
        self._gateway = gateway
        self._text = text
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledged: list[str] = []
        self.refused = 0
        self.odd: list[str] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._send()) for _ in range(4)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self) -> None:
        body = envelope("SendMessage", message_params(self._text))
        async with http_client() as http:
            while True:
                answer = await http.post(self._gateway.jsonrpc_url, json=body, headers=HEADERS)
                if answer.status_code == 200 and "result" in answer.json():
                    self.acknowledged.append(answer.json()["result"]["task"]["id"])
                elif answer.status_code == 503 and "retry-after" in answer.headers:
                    self.refused += 1
                    # A caller that comes back at once would only load the machine.
                    await asyncio.sleep(0.01)
                else:
                    self.odd.append(answer.text)

    async def has(self, acknowledged: int = 0, refused: int = 0) -> None:
        acknowledged += len(self.acknowledged)
        refused += self.refused
        await eventually(
            lambda: _is(len(self.acknowledged) >= acknowledged and self.refused >= refused)
        )


async def _is(condition: bool) -> bool:
    return condition


async def readiness(http: httpx.AsyncClient, gateway: Gateway) -> int:
    return (await http.get(f"{gateway.url}/readyz")).status_code


async def found(gateway: Gateway, task_ids: list[str]) -> list[str]:
    async with http_client() as http:
        answers = [
            await http.get(f"{gateway.rest_url}/tasks/{task_id}", headers=HEADERS)
            for task_id in task_ids
        ]
    return [answer.json()["id"] for answer in answers if answer.status_code == 200]


def check(gateway: Gateway) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trunkline", "db", "check", *gateway.arguments(())],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        timeout=60,
    )


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("kind", ["sqlite", "json-file"])
async def test_a_store_that_was_moved_away_has_all_that_was_acknowledged(
    tmp_path: Path, kind: str, end: str
) -> None:
    path = tmp_path / "data" / "store"
    path.parent.mkdir()
    with gateway_on(tmp_path, path, kind) as gateway:
        async with Load(gateway) as load, http_client() as http:
            await load.has(acknowledged=30)
            path.rename(path.with_name("elsewhere"))
            await load.has(refused=30)
            assert await readiness(http, gateway) == 503
            assert (await http.get(f"{gateway.url}/healthz")).status_code == 200
        assert load.odd == []
        if end == "stopped":
            assert gateway.stop() == 0
        else:
            gateway.kill()
        assert gateway.stderr.count("the store takes no changes") == 1
        assert "Traceback" not in gateway.stderr
        path.with_name("elsewhere").rename(path)
        gateway.start()
        assert await found(gateway, load.acknowledged) == load.acknowledged
        gateway.stop()
        checked = check(gateway)
        assert checked.returncode == 0, checked.stdout


async def test_a_deleted_database_ends_acknowledging(tmp_path: Path) -> None:
    path = tmp_path / "data" / "store"
    path.parent.mkdir()
    with gateway_on(tmp_path, path, "sqlite") as gateway:
        async with Load(gateway) as load, http_client() as http:
            await load.has(acknowledged=30)
            path.unlink()
            await load.has(refused=10)
            before = len(load.acknowledged)
            await load.has(refused=30)
            assert len(load.acknowledged) == before
            answer = await http.get(f"{gateway.url}/readyz")
            assert answer.status_code == 503
            assert "deleted or moved away" in answer.text
        assert gateway.stop() == 0
        # A new and empty store would only hide what happened.
        gateway.launch()
        assert gateway.wait() == 1
        assert f"delete {path}.lock to begin with an empty store" in gateway.stderr


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(40 * 4096))


def cut(path: Path) -> None:
    os.truncate(path, 8192)


@pytest.mark.parametrize("damage", [overwrite, cut])
async def test_a_damaged_database_ends_acknowledging(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "data" / "store"
    path.parent.mkdir()
    with gateway_on(tmp_path, path, "sqlite") as gateway:
        # The log is written to the database at 1,000 pages, and begins anew after that. When
        # that has happened twice, the oldest tasks are nowhere but in the database.
        async with Load(gateway, "long " * 2000) as load, http_client() as http:
            await eventually(lambda: _is(path.stat().st_size > 1300 * 4096))
            damage(path)
            await eventually(lambda: _reads_fail(http, gateway, load.acknowledged[:50]))
            await load.has(refused=10)
            assert await readiness(http, gateway) == 503
        assert load.odd == []
        gateway.stop()
        assert "Traceback" not in gateway.stderr
        checked = check(gateway)
        assert checked.returncode == 13, checked.stdout + checked.stderr
        gateway.launch()
        assert gateway.wait() == 1
        assert "is damaged" in gateway.stderr
        assert "trunkline db check" in gateway.stderr


async def _reads_fail(http: httpx.AsyncClient, gateway: Gateway, task_ids: list[str]) -> bool:
    # The oldest tasks: no later write covers their pages, and no reader has them in its cache.
    for task_id in task_ids:
        answer = await http.get(f"{gateway.rest_url}/tasks/{task_id}", headers=HEADERS)
        assert answer.status_code in (200, 503), answer.text
    return await readiness(http, gateway) == 503


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("kind", ["sqlite", "json-file"])
async def test_a_gateway_outlives_a_full_disk(small_disk: Path, tmp_path: Path, kind: str) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 << 20))
    with gateway_on(tmp_path, small_disk / "store", kind) as gateway:
        async with Load(gateway, "long " * 1000) as load, http_client() as http:
            await load.has(acknowledged=1)
            await eventually(lambda: _says_full(http, gateway))
        full = len(load.acknowledged)
        assert await found(gateway, load.acknowledged) == load.acknowledged
        ballast.unlink()
        async with http_client() as http:
            # Nobody sends anything.
            await eventually(lambda: _answers(http, gateway, 200))
        async with Load(gateway) as more:
            await more.has(acknowledged=3)
        assert load.odd == more.odd == []
        gateway.kill()
        gateway.start()
        acknowledged = load.acknowledged + more.acknowledged
        assert len(acknowledged) > full
        assert await found(gateway, acknowledged) == acknowledged


async def _says_full(http: httpx.AsyncClient, gateway: Gateway) -> bool:
    # One look: a smaller append may fit after a large one did not, and the gateway is ready again.
    answer = await http.get(f"{gateway.url}/readyz")
    return answer.status_code == 503 and "the disk is full" in answer.text


async def _answers(http: httpx.AsyncClient, gateway: Gateway, status: int) -> bool:
    return await readiness(http, gateway) == status
