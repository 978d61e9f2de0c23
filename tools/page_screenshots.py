"""Takes the pictures of the page in docs/images/page: each view, light and dark, wide and narrow.

    python -m tools.page_screenshots [NAME …]

It starts a gateway with a hub and agents of its own, in a temporary folder, and needs Chromium.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Page
from tests.acceptance.gateway import Gateway

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images" / "page"
SIZES = {"wide": (1280, 800), "narrow": (375, 812)}
SCHEMES = ("light", "dark")
DEADLINE_MS = 15_000

CONFIG = """
[hub]

[console]
visits = "public"

[agents."acme/trip-planner"]
backend = { kind = "python", target = "code.py:planner" }
default = true

[agents."acme/researcher"]
backend = { kind = "python", target = "code.py:researcher" }

[agents."acme/bridge"]
name = "Bridge"
description = "Another A2A agent, with durable tasks"
backend = { kind = "a2a", url = "OTHER" }

[agents."acme/echo"]
name = "Echo"
description = "Says what it hears."
backend = { kind = "echo" }
"""

OTHER = """
[agents."north/weather"]
backend = { kind = "python", target = "code.py:weather" }
default = true
"""

CODE = '''
import asyncio

from trunkline import agent


@agent(name="Trip planner", skills=["plan"])
async def planner(turn):
    """Plans a trip, one day at a time."""
    if turn.asked is None:
        yield turn.ask("How many days?")
        return
    yield "## Your trip\\n\\n"
    for day in range(1, min(int(turn.text), 5) + 1):
        yield f"{day}. **Day {day}**: explore another part of the city, and rest in a *garden*.\\n"
        await asyncio.sleep(0.05)


@agent(name="Researcher", skills=["search", "summarise"])
async def researcher(turn):
    """Searches, computes, and hands over files."""
    call = turn.tool("search", {"query": turn.text})
    yield call
    await asyncio.sleep(0.1)
    yield call.result({"found": 3, "best": "A2A 1.0, section 3.1"})
    yield turn.artifact(name="figures", data={"requests": 5400, "p99Ms": 3.2, "nodes": ["a", "b"]})
    rows = b"name,value\\nsend,80\\nget,26\\n"
    yield turn.artifact(name="table", raw=rows, media_type="text/csv", filename="table.csv")
    yield "Three sources say the same:\\n\\n"
    yield "| operation | µs |\\n|---|---|\\n| send | 80 |\\n| get | 26 |\\n\\n"
    yield "```python\\nfrom trunkline import agent\\n```\\n"


@agent(name="Weather", skills=["forecast"])
async def weather(turn):
    """Tells the weather."""
    for word in "Sunny in the morning, some rain in the evening.".split(" "):
        yield word + " "
        await asyncio.sleep(0.02)
'''


@dataclass(frozen=True, slots=True)
class Shot:
    name: str
    # The address behind the `#`, or what finds it.
    path: str | Callable[["World"], str]
    # Brings the page into the state to show.
    prepare: Callable[[Page], object] = lambda page: None
    signed_in: bool = True


@dataclass(slots=True)
class World:
    running: Gateway
    token: str
    tasks: dict[str, str]

    def api(self, path: str) -> dict[str, object]:
        answer = httpx.get(
            f"{self.running.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        answer.raise_for_status()
        found: dict[str, object] = answer.json()
        return found
