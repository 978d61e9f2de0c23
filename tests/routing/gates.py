"""What the agents of a gateway in this process wait for, and what they were asked."""

import asyncio
from typing import Any

# Another one for each test, because each has a loop of its own.
go_on = asyncio.Event()
ASKED: list[Any] = []


def reset() -> None:
    global go_on
    go_on = asyncio.Event()
    ASKED.clear()
