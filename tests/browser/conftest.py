"""Chromium on a running gateway. Every test fails on an error in the console of the browser, on
something that the Content-Security-Policy refused, and on a request to any other server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebError,
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
    # The tabs of a gateway share a process: to start one costs more than most tests.
    "--process-per-site",
]
# Generous, because the machine may be busy; nothing waits this long when all is well.
DEADLINE_MS = 30_000
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


# Not for longer than a file: while Playwright runs, its event loop runs in this thread, and other
# files could not run theirs.
@pytest.fixture(scope="module")
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
        self._context = context
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)

    def stop(self) -> None:
        self._context.remove_listener("console", self._on_console)
        self._context.remove_listener("weberror", self._on_error)
        self._context.remove_listener("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"exception: {error.error}")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if (
            parts.scheme not in ("data", "blob")
            and f"{parts.scheme}://{parts.netloc}" != self.origin
        ):
            self.faults.append(f"request to another server: {request.url}")

    def check(self) -> None:
        left = [f for f in self.faults if not any(word in f for word in self.expected)]
        assert not left, left


class Profile:
    """A user of the browser at one gateway. The tests of a file share it, because a new one starts
    processes and loads every file anew; each test gets it without cookies and stored data."""

    def __init__(self, browser: Browser, served: Gateway) -> None:
        self._served = served
        self.context = browser.new_context(
            viewport={"width": 1280, "height": 800}, base_url=served.url
        )
        self.context.set_default_timeout(DEADLINE_MS)
        # An empty tab, which keeps the process of the gateway's tabs.
        self._keeper = self.context.new_page()
        empty = '<!doctype html><link rel="icon" href="data:,">'
        self._keeper.route(
            "**/*", lambda route: route.fulfill(body=empty, content_type="text/html")
        )
        self._keeper.goto("/keeper")
        self._devtools = self.context.new_cdp_session(self._keeper)
        self._cookies: list[Any] = []
        self._signed_in_at = 0

    def clear(self) -> None:
        for tab in self.context.pages:
            if tab is not self._keeper:
                tab.close()
        self.context.unroute_all()
        self.context.clear_permissions()
        self.context.clear_cookies()
        data = {"origin": self._served.url, "storageTypes": "local_storage,indexeddb,cache_storage"}
        self._devtools.send("Storage.clearDataForOrigin", data)

    def sign_in(self, page: Page) -> None:
        """Open the page with a code, or with the session that a code began for this process."""
        if self._signed_in_at == self._served.process.pid:
            self.context.add_cookies(self._cookies)
            page.goto("/")
        else:
            page.goto(new_code(self._served))
            self._signed_in_at = self._served.process.pid
            self._cookies = list(self.context.cookies())
        page.get_by_role("heading", name="Agents").wait_for()


@pytest.fixture(scope="module")
def profile(browser: Browser, served: Gateway) -> Iterator[Profile]:
    made = Profile(browser, served)
    yield made
    made.context.close()


@pytest.fixture
def context(profile: Profile) -> Iterator[BrowserContext]:
    yield profile.context
    profile.clear()


@pytest.fixture
def watch(context: BrowserContext, served: Gateway) -> Iterator[Watch]:
    watching = Watch(context, served.url)
    yield watching
    watching.stop()
    watching.check()


@pytest.fixture
def page(context: BrowserContext, watch: Watch, profile: Profile) -> Page:
    """A tab that is signed in, at the list of agents."""
    opened = context.new_page()
    profile.sign_in(opened)
    return opened


def new_code(running: Gateway) -> str:
    """An address that opens the page once, from `trunkline open`."""
    command = [sys.executable, "-m", "trunkline", "open", "--print", *running.arguments(())]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | running.environment
    )
    return done.stdout.strip().splitlines()[-1]


Scheme = Literal["light", "dark"]
# Those that axe-core has among its usual rules.
COLOUR_RULES = ("color-contrast", "link-in-text-block")


class Axe:
    """Looks for barriers with axe-core. Its source comes past the policy of the page, as one of an
    extension does."""

    def __init__(self, source: str) -> None:
        self._source = source

    def in_both_themes(self, page: Page) -> list[str]:
        """All rules in the light theme. The dark one has the same elements in other colours, so
        there the rules about colours are enough."""
        return [*self.scan(page, "light"), *self.scan(page, "dark", *COLOUR_RULES)]

    def scan(self, page: Page, scheme: Scheme, *rules: str) -> list[str]:
        page.emulate_media(color_scheme=scheme)
        if not page.evaluate("() => 'axe' in window"):
            page.context.new_cdp_session(page).send(
                "Runtime.evaluate", {"expression": self._source}
            )
        found = page.evaluate(_SCAN, rules)
        assert found["passes"], "axe-core has looked at nothing"
        return [f"in {scheme}: {each}" for each in found["violations"]]


_SCAN = """async (rules) => {
  await document.fonts.ready;
  const options = { resultTypes: ["violations"] };
  if (rules.length) options.runOnly = rules;
  const { violations, passes } = await axe.run(document, options);
  const told = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  return { violations: told, passes: passes.length };
}"""


@pytest.fixture(scope="session")
def axe() -> Axe:
    """axe-core; skips where its package is not installed."""
    file = Path(__file__).parents[1] / "acceptance/js/node_modules/axe-core/axe.min.js"
    if not file.exists():
        pytest.skip("axe-core is not installed: ./check javascript")
    return Axe(file.read_text())
