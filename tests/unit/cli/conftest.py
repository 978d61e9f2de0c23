from collections.abc import Iterator
from functools import cache

import pytest
from typer.main import get_command


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Typer reads the signatures of all commands for every call, which takes 11 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield
