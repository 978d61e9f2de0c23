"""Browsers for the tests of the sign-in."""

from collections.abc import AsyncIterator

import pytest
from tests.hub.sign_in_world import Browsers, browsers


@pytest.fixture(name="browsers")
async def _browsers() -> AsyncIterator[Browsers]:
    async with browsers() as made:
        yield made
