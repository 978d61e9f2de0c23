"""Chromium on a running gateway. Every test fails on an error in the console of the browser, on
something that the Content-Security-Policy refused, and on a request to any other server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from tests.acceptance.gateway import Gateway, gateway
from tests.browser.hub_world import hub as hub
from tests.browser.world import CODE, CONFIG

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
# As root Chromium needs the first; the others keep it from looking for hosts by itself.
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DEADLINE_MS = 15_000
expect.set_options(timeout=DEADLINE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM:
        return
    skip = pytest.mark.skip(reason="there is no Chromium on PATH: apt-get install chromium")
    for item in items:
        if "tests/browser/" in item.path.as_posix():
            item.add_marker(skip)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "code.py").write_text(CODE)
    with gateway(folder, CONFIG) as running:
        yield running.start()
        running.check_log()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


class Watch:
    """What the browser complained about, and which servers it asked."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.origin = origin
        self.faults: list[str] = []
        # Words of complaints that a test expects, such as a 401.
        self.expected: list[str] = []
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.faults.append(f"exception: {error.error}"))
        context.on("request", lambda request: self._on_request(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _on_request(self, url: str) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme not in ("data", "blob")
            and f"{parts.scheme}://{parts.netloc}" != self.origin
        ):
            self.faults.append(f"request to another server: {url}")

    def check(self) -> None:
        left = [f for f in self.faults if not any(word in f for word in self.expected)]
        assert not left, left


@pytest.fixture
def context(browser: Browser, served: Gateway) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=served.url)
    made.set_default_timeout(DEADLINE_MS)
    yield made
    made.close()


@pytest.fixture
def watch(context: BrowserContext, served: Gateway) -> Iterator[Watch]:
    watching = Watch(context, served.url)
    yield watching
    watching.check()


@pytest.fixture
def page(context: BrowserContext, watch: Watch, served: Gateway) -> Page:
    """A tab that is signed in, at the list of agents."""
    opened = context.new_page()
    opened.goto(new_code(served))
    opened.get_by_role("heading", name="Agents").wait_for()
    return opened


def new_code(running: Gateway) -> str:
    """An address that opens the page once, from `trunkline open`."""
    command = [sys.executable, "-m", "trunkline", "open", "--print", *running.arguments(())]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | running.environment
    )
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture
def axe() -> str:
    """The source of axe-core; skips where its package is not installed."""
    file = Path(__file__).parents[1] / "acceptance/js/node_modules/axe-core/axe.min.js"
    if not file.exists():
        pytest.skip("axe-core is not installed: ./check javascript")
    return file.read_text()
