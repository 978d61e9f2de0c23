"""Every store keeps every promise of the port."""

from pathlib import Path

import pytest

from trunkline.stores.memory import MemoryStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.check_store import CHECKS, DURABLE_CHECKS, Check, check_store


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_memory(check: Check) -> None:
    await check(lambda _: MemoryStore())


@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_sqlite(check: Check, tmp_path: Path) -> None:
    await check(lambda name: SqliteStore(tmp_path / name))


async def test_suite_runs_in_one_call(tmp_path: Path) -> None:
    await check_store(lambda name: SqliteStore(tmp_path / name), is_durable=True)
