"""Very many tasks and events stay smooth: rows in sight only, pages on demand, no long work."""

import json
import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.acceptance.gateway import Gateway, gateway
from tests.browser.big_store import LONG_TASK, fill
from tests.browser.world import CODE, CONFIG

TASKS: Final = 10_000
EVENTS: Final = 100_000
# Rows of a screen and those ready beside it.
MAX_ROWS: Final = 60
MAX_LONG_MS: Final = 100

# From the top to the end, a step for each frame; the greatest number of rows in the document.
_SCROLL = """async (steps) => {
  const box = document.querySelector(".vbox");
  let most = 0;
  for (let step = 0; step <= steps; step++) {
    box.scrollTop = ((box.scrollHeight - box.clientHeight) * step) / steps;
    await new Promise(requestAnimationFrame);
    most = Math.max(most, document.querySelectorAll(".vrow").length);
  }
  return most;
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("big")
    (folder / "code.py").write_text(CODE)
    fill(folder / "data/trunkline.db", tasks=TASKS, events=EVENTS)
    with gateway(folder, CONFIG) as running:
        yield running.start()
        running.check_log()


class Asked:
    """The requests of the page to the interface."""

    def __init__(self, context: BrowserContext) -> None:
        self.urls: list[str] = []
        context.on("request", lambda request: self.urls.append(request.url))

    def take(self, path: str) -> int:
        """How many there were for this path since the last time."""
        found = [url for url in self.urls if re.search(path, url)]
        self.urls.clear()
        return len(found)


@pytest.fixture
def asked(context: BrowserContext) -> Asked:
    return Asked(context)


def test_many_tasks(page: Page, asked: Asked) -> None:
    page.goto("/#/tasks")
    rows = page.locator(".vrow")
    expect(rows.first).to_be_visible()
    # One page is enough to begin.
    assert asked.take(r"/api/v1/tasks\?") <= 4
    assert page.evaluate(_SCROLL, 60) <= MAX_ROWS
    box = page.locator(".vbox")
    note = page.get_by_text(re.compile(r"^10,001 tasks"))
    while " read" in note.inner_text():
        box.press("End")
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert asked.take(r"/api/v1/tasks\?.*pageSize=200") <= TASKS // 200 + 2
    assert page.evaluate(_SCROLL, 120) <= MAX_ROWS
    assert asked.take(r"/api/v1/tasks\?.*pageSize=200") == 0
    page.get_by_label("Filter tasks").fill("number 9876")
    expect(page.get_by_text("1 task fits; searched 10,001")).to_be_visible()


def test_many_events(page: Page, asked: Asked) -> None:
    page.goto(f"/#/tasks/{LONG_TASK}")
    expect(page.get_by_text("100,000 events")).to_be_visible()
    expect(page.locator(".vrow").first).to_contain_text("Count")
    assert asked.take(r"/events\?") <= 2
    # A list that is scrolled through reads on, but gives up what has gone past.
    assert page.evaluate(_SCROLL, 60) <= MAX_ROWS
    expect(page.locator(".vrow").last).to_contain_text("100000")
    asked.take("")
    page.get_by_label("Sequence", exact=True).fill("77777")
    page.get_by_role("button", name="Go to").click()
    expect(page.get_by_role("complementary", name="Event 77777")).to_contain_text("word77777")
    expect(page.locator(".vrow.selected")).to_contain_text("word77777")
    assert asked.take(r"/events\?") <= 3
    page.get_by_label("Search the previews").fill("word99999")
    expect(page.get_by_text("1 event fits; searched 100,000 of 100,000")).to_be_visible()
    assert asked.take(r"/events\?") <= EVENTS // 500 + 2


def test_replay_of_many_events(page: Page, asked: Asked) -> None:
    page.goto(f"/#/tasks/{LONG_TASK}?tab=replay&seq=1000")
    expect(page.locator(".folded")).to_contain_text("word1000")
    # It reads what it shows, and no more.
    assert asked.take(r"detail=full") <= 12
    expect(page.locator(".folded")).not_to_contain_text("word1001")
    page.get_by_role("slider", name="Sequence").fill("50000")
    expect(page.locator(".folded")).to_contain_text("word50000", timeout=30_000)
    expect(page.locator(".folded")).not_to_contain_text("word50001")
    # Backwards nothing is read again.
    asked.take("")
    page.get_by_role("slider", name="Sequence").fill("400")
    expect(page.locator(".folded")).to_contain_text("word400")
    assert asked.take("detail=full") == 0


def test_no_long_work(page: Page, browser: Browser) -> None:
    """While scrolling and replaying. What counts is the time of the processor: on a busy machine
    everything takes longer, but not more of that."""
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "__metadata"])
    page.goto("/#/tasks")
    expect(page.locator(".vrow").first).to_be_visible()
    page.evaluate(_SCROLL, 100)
    page.goto(f"/#/tasks/{LONG_TASK}")
    expect(page.get_by_text("100,000 events")).to_be_visible()
    page.evaluate(_SCROLL, 100)
    page.goto(f"/#/tasks/{LONG_TASK}?tab=replay&seq=5000")
    expect(page.locator(".folded")).to_contain_text("word5000")
    events = json.loads(browser.stop_tracing())["traceEvents"]
    drawing = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    times = sorted(
        each.get("tdur", 0) / 1000
        for each in events
        if each["name"].endswith("RunTask") and (each["pid"], each["tid"]) in drawing
    )
    assert len(times) > 100
    assert times[-1] <= MAX_LONG_MS, times[-10:]
