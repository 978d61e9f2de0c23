"""What goes over the wire stays the same, byte for byte.

A change that is meant is recorded with `python -m tests.corpus.test_answers`, and its difference is
part of the commit.
"""

import asyncio
from pathlib import Path

import pytest
from tests.corpus.recording import FOLDER, file_of, recorded
from tests.corpus.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_answers_are_as_recorded(scenario: Scenario, store: str, tmp_path: Path) -> None:
    found = await recorded(scenario, tmp_path if store == "sqlite" else None)
    assert found.decode() == file_of(scenario).read_bytes().decode()


def test_every_recording_has_its_scenario() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {file_of(each).name for each in SCENARIOS}


async def _record() -> None:
    FOLDER.mkdir(exist_ok=True)
    for scenario in SCENARIOS:
        file_of(scenario).write_bytes(await recorded(scenario))


if __name__ == "__main__":
    asyncio.run(_record())
