"""Browsers for the tests of the sign-in, and the stores that the audit is tested on."""

from collections.abc import AsyncIterator

import pytest
from tests.hub.sign_in_world import Browsers, browsers
from tests.runtime.conftest import make_store as make_store


@pytest.fixture(name="browsers")
async def _browsers() -> AsyncIterator[Browsers]:
    async with browsers() as made:
        yield made
