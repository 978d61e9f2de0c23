"""`kill -9` between the claim of a due record and the commit of its handler."""

import asyncio
import random
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.acceptance.due_work_process import KIND, RECORDS, fill, make
from tests.postgres.clock import DatabaseClock

from trunkline.runtime.due_work import LEASE_S

ROOT = Path(__file__).parents[2]


class Life(dict[str, list[str]]):
    """What the process said, by the first word of each line."""

    def __init__(self, store: str, where: Path | str) -> None:
        super().__init__(left=[], run=[], done=[])
        command = [sys.executable, "-m", "tests.acceptance.due_work_process", store, str(where)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def read(self, runs: int) -> None:
        """Until the handler has run that often, or to the end."""
        assert self._process.stdout is not None
        while len(self["run"]) < runs:
            line = self._process.stdout.readline()
            if not line:
                return
            word, value = line.split()
            self[word].append(value)

    def kill(self) -> None:
        """And read what the process had said until then."""
        with self._process:
            self._process.kill()
            self.read(10 * RECORDS)


def run(folder: Path, store: str, kills: int) -> None:
    chance = random.Random(7)
    lives: list[Life] = []
    while True:
        life = Life(store, folder)
        lives.append(life)
        is_last = len(lives) > kills
        life.read(10 * RECORDS if is_last else chance.randrange(1, 2 * RECORDS // (kills + 1)))
        life.kill()
        # A handler runs in a life if its record was left, and no more than once.
        assert len(set(life["run"])) == len(life["run"])
        assert set(life["run"]) <= set(life["left"])
        if is_last:
            break
    assert len(lives[0]["left"]) == RECORDS
    for before, after in pairwise(lives):
        # What has gone was run, so that the changes of its handler are there.
        assert set(before["left"]) - set(after["left"]) <= set(before["run"])
    last = lives[-1]
    assert sorted(last["run"]) == sorted(last["left"])
    assert last["done"] == [str(RECORDS)]


@pytest.mark.parametrize("store", ["sqlite", "json-file"])
def test_kills_count_no_record_twice_and_lose_none(tmp_path: Path, store: str) -> None:
    run(tmp_path, store, kills=2)


@pytest.mark.full
@pytest.mark.parametrize("store", ["sqlite", "json-file"])
def test_many_kills_count_no_record_twice_and_lose_none(tmp_path: Path, store: str) -> None:
    run(tmp_path, store, kills=40)


async def run_nodes(url: str, kills: int) -> None:
    """Two processes share a store, and each kill is of one of them."""
    chance = random.Random(7)
    store = make("postgres", url)
    await store.open()
    await fill(store)
    with closing(DatabaseClock(url)) as clock:
        lives = [Life("postgres", url) for _ in range(2)]
        ended: list[Life] = []
        for _ in range(kills):
            life = lives.pop(0)
            await asyncio.to_thread(life.read, chance.randrange(1, RECORDS // (kills + 1)))
            life.kill()
            ended.append(life)
            # What the process had claimed, and what the living one works on, is claimed again.
            clock.skip(LEASE_S + 1)
            lives.append(Life("postgres", url))
        for life in lives:
            await asyncio.to_thread(life.read, 10 * RECORDS)
            life.kill()
    runs = [each for life in ended + lives for each in life["run"]]
    assert len(set(runs)) == RECORDS
    assert [life["done"] for life in lives] == [[str(RECORDS)]] * 2
    assert await store.records(KIND, limit=1) == ()
    await store.close()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
async def test_kills_of_nodes_count_no_record_twice_and_lose_none(
    postgres_url: str, kills: int
) -> None:
    await run_nodes(postgres_url, kills)
