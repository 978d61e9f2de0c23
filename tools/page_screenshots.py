"""Takes the pictures of the page in docs/images/page: each view, light and dark, wide and narrow.

    python -m tools.page_screenshots [NAME …]

It starts a gateway with a hub and agents of its own, in a temporary folder, and needs Chromium.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from tests.acceptance.gateway import Gateway, gateway

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

[agents."acme/lead"]
backend = { kind = "python", target = "code.py:lead" }

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


@agent(name="Lead", skills=["delegate"])
async def lead(turn):
    """Asks two others at once, and then a third."""
    plan = turn.call_batch(
        [
            {"agent": "acme/researcher", "input": turn.text},
            {"agent": "acme/bridge", "input": turn.text},
        ]
    )
    async for _ in plan:
        pass
    answer = await turn.call("acme/echo", "Thank you")
    yield f"Everybody has answered, the last one is {answer['status']}."


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
    agents: dict[str, str] = field(default_factory=dict)

    def api(self, path: str) -> dict[str, object]:
        answer = httpx.get(
            f"{self.running.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        answer.raise_for_status()
        found: dict[str, object] = answer.json()
        return found


def recorded(handle: str) -> Callable[["World"], str]:
    """The address of the newest exchange that the gateway served for the agent."""

    def find(world: World) -> str:
        found = world.api(f"/wire?agent={handle}&side=server&limit=500")["items"]
        assert isinstance(found, list)
        sends = [each for each in found if each["operation"].startswith("Send")]
        return f"#/inspector/{sends[-1]['id']}"

    return find


def of_task(name: str, after: str = "") -> Callable[["World"], str]:
    return lambda world: f"#/tasks/{world.tasks[name]}{after}"


def research_in_chat(page: Page) -> None:
    page.get_by_role("textbox", name="Message").fill("How fast is a durable send?")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("cell", name="80").wait_for()


def ask_both(page: Page) -> None:
    page.get_by_role("textbox", name="Message").fill("Will it rain tomorrow?")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("evening.").first.wait_for()


def ask_in_chat(page: Page) -> None:
    page.get_by_role("textbox", name="Message").fill("A trip to Lisbon")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("How many days?").last.wait_for()


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_label("Find", exact=True).fill("tri")
    page.get_by_text("Chat with Trip planner").wait_for()


SHOTS = (
    Shot("sign-in", "#/agents", signed_in=False),
    Shot("agents", "#/agents"),
    Shot("agent", "#/agents/acme/researcher"),
    Shot("agent-raw", "#/agents/acme/researcher/raw"),
    Shot("agent-call", "#/agents/acme/researcher/call"),
    Shot("chat", "#/chat/acme/researcher", research_in_chat),
    Shot("chat-question", "#/chat/acme/trip-planner", ask_in_chat),
    Shot("compare", "#/chat/compare?a=acme/bridge&b=acme/echo", ask_both),
    Shot("tasks", "#/tasks"),
    Shot("task", of_task("research")),
    Shot("task-messages", of_task("research", "?tab=content")),
    Shot("replay", of_task("research", "?tab=replay")),
    Shot("waiting", "#/inbox"),
    Shot("inspector", "#/inspector?q=-op:GetAgentCard"),
    Shot("exchange", recorded("acme/bridge")),
    Shot("both-wires", lambda world: f"{recorded('acme/bridge')(world)}?tab=wires"),
    Shot("waterfall", lambda world: f"#/inspector?q=task:{world.tasks['bridge']}&view=waterfall"),
    Shot("task-calls", of_task("lead")),
    Shot("calls", "#/calls"),
    Shot("hub", "#/hub"),
    Shot("hub-agents", "#/hub/agents"),
    Shot("hub-new-agent", "#/hub/agents/new"),
    Shot("hub-tokens", "#/hub/tokens"),
    Shot("hub-audit", "#/hub/audit"),
    Shot("hub-inbound", lambda world: f"#/hub/inbound/{world.agents['acme/researcher']}"),
    Shot("hub-nodes", "#/hub/nodes"),
    Shot("hub-sessions", "#/hub/sessions"),
    Shot("palette", "#/agents", open_palette),
)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Two gateways: the one of the pictures, and the one that its bridge leads to."""
    (folder / "code.py").write_text(CODE)
    other = folder / "other"
    other.mkdir()
    (other / "code.py").write_text(CODE)
    with gateway(other, OTHER) as upstream:
        upstream.start()
        with gateway(folder, CONFIG.replace("OTHER", upstream.url)) as running:
            running.start()
            yield filled(running)


def filled(running: Gateway) -> World:
    """Some days of use in a few seconds."""
    token = re.search(r"tl_key_\S+", running.stdout)
    assert token is not None
    made = World(running, token[0], {})
    client = httpx.Client(
        base_url=running.url, headers={"Authorization": f"Bearer {made.token}"}, timeout=30
    )
    agents = {each["handle"]: each["id"] for each in client.get("/api/v1/agents").json()["items"]}
    for handle in ("acme/bridge", "acme/researcher", "acme/trip-planner", "acme/lead"):
        client.put(f"/api/v1/wire/agents/{agents[handle]}", json={"on": True}).raise_for_status()
    client.post(
        "/api/v1/agents",
        json={
            "slug": "helper",
            "owner": "acme",
            "name": "Helper",
            "status": "published",
            "backend": {"kind": "echo"},
            "dailyBudgetQueries": 20,
        },
    ).raise_for_status()
    for name in ("ci", "nightly"):
        client.post(
            "/api/v1/tokens", json={"name": name, "scopes": ["read", "call"], "agents": ["acme/*"]}
        ).raise_for_status()

    def send(handle: str, text: str, *, streams: bool = False) -> str:
        kind = "SendStreamingMessage" if streams else "SendMessage"
        message = {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}]}
        answer = client.post(
            f"/api/a2a/v1/agents/{handle}",
            headers={"A2A-Version": "1.0"},
            json={"jsonrpc": "2.0", "id": 1, "method": kind, "params": {"message": message}},
        )
        answer.raise_for_status()
        found = re.search(r'"task":\{"id":"([^"]+)"', answer.text)
        assert found is not None, answer.text
        return found[1]

    for day in range(8):
        send("acme/helper", f"Question {day}")
    send("acme/trip-planner", "A trip to Porto")
    made.tasks["lead"] = send("acme/lead", "What is new?")
    made.agents = agents
    made.tasks["bridge"] = send("acme/bridge", "Will it rain tomorrow?", streams=True)
    made.tasks["research"] = send("acme/researcher", "How fast is a durable send?", streams=True)
    return made


def take(browser: Browser, made: World, shot: Shot, *, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(DEADLINE_MS)
    page = context.new_page()
    if shot.signed_in:
        page.goto(one_use_url(made.running))
        page.get_by_role("heading", name="Agents").wait_for()
    path = shot.path if isinstance(shot.path, str) else shot.path(made)
    page.goto(f"{made.running.url}/{path}")
    page.wait_for_load_state("networkidle") if not shot.signed_in else page.wait_for_timeout(700)
    shot.prepare(page)
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / f"{shot.name}-{size}-{scheme}.png")
    context.close()


def one_use_url(running: Gateway) -> str:
    command = [sys.executable, "-m", "trunkline", "open", "--print", *running.arguments(())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def main() -> int:
    wanted = set(sys.argv[1:]) or {shot.name for shot in SHOTS}
    if unknown := wanted - {shot.name for shot in SHOTS}:
        print(f"no such picture: {', '.join(sorted(unknown))}")
        return 2
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), "")
    if not chromium:
        print("there is no Chromium on PATH: apt-get install chromium")
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        world(Path(folder)) as made,
        sync_playwright() as playwright,
    ):
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        for shot in SHOTS:
            if shot.name in wanted:
                print(shot.name, flush=True)
                for size in SIZES:
                    for scheme in SCHEMES:
                        take(browser, made, shot, size=size, scheme=scheme)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
