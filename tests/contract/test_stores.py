"""Every store keeps every promise of the port."""

from pathlib import Path
from typing import Any

import pytest
from tests.postgres.fixtures import ON_EVERY_POSTGRES

from trunkline.clock import SystemClock
from trunkline.ports.store import Scope
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.stores.memory import MemoryStore
from trunkline.stores.postgres.store import PostgresStore
from trunkline.stores.sqlite import SqliteStore
from trunkline.testing.check_store import CHECKS, DURABLE_CHECKS, Check, check_store


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_memory(check: Check) -> None:
    await check(lambda _: MemoryStore())


@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_sqlite(check: Check, tmp_path: Path) -> None:
    await check(lambda name: SqliteStore(tmp_path / name))


def json_files(folder: Path, **options: Any) -> JsonFileStore:
    return JsonFileStore(folder, clock=SystemClock(), adopts=Scope("a", "", "p"), **options)


@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_json_files(check: Check, tmp_path: Path) -> None:
    await check(lambda name: json_files(tmp_path / name))


@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_json_files_with_a_new_log_for_every_commit(check: Check, tmp_path: Path) -> None:
    await check(lambda name: json_files(tmp_path / name, log_bytes=0))


@ON_EVERY_POSTGRES
@pytest.mark.parametrize("check", CHECKS + DURABLE_CHECKS, ids=lambda check: check.__name__)
async def test_postgres(check: Check, cleared_postgres_url: str) -> None:
    await check(lambda _: PostgresStore(cleared_postgres_url, allow_unsafe=True))


@pytest.mark.no_cover
async def test_suite_runs_in_one_call(tmp_path: Path) -> None:
    await check_store(lambda name: SqliteStore(tmp_path / name), is_durable=True)
