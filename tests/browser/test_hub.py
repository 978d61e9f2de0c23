"""The views of the hub in a browser."""

import re
import secrets

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from tests.acceptance.gateway import Gateway
from tests.browser.conftest import Axe, Watch
from tests.browser.hub_world import ADMIN, OWNER, HubServer, sign_in

VIEWS = [
    "#/hub",
    "#/hub/agents",
    "#/hub/agents/new",
    "#/hub/agents/{id}",
    "#/hub/inbound/{id}",
    "#/hub/tokens",
    "#/hub/tokens/new",
    "#/hub/people",
    "#/hub/audit",
    "#/hub/sessions",
    "#/hub/relay",
    "#/hub/nodes",
]


@pytest.fixture(scope="session")
def served(hub: HubServer) -> Gateway:
    """The gateway of the browser in this file."""
    return hub.running


@pytest.fixture(scope="session")
def busy(hub: HubServer) -> str:
    """The id of an agent with calls, denied ones and a session."""
    made = hub.publish("busy", limits={"dailyBudgetQueries": 3})
    token = hub.new_token("caller", "acme/*")
    for number in range(5):
        assert hub.ask("acme/busy", f"question {number}", token=token).status_code == 200
    found: str = made["id"]
    return found


@pytest.fixture
def browser_page(context: BrowserContext, watch: Watch) -> Page:
    """A tab that nobody is signed in at."""
    return context.new_page()


@pytest.fixture
def slug() -> str:
    return f"agent-{secrets.token_hex(4)}"


def field(page: Page, label: str) -> Locator:
    """The input of a field by the words of its label alone, without its hint."""
    words = page.locator(".label", has_text=re.compile(f"^{re.escape(label)}$"))
    return page.locator("label.field", has=words).locator("input, textarea, select")


def card_status(page: Page, slug: str) -> int:
    return page.request.get(f"/api/a2a/v1/agents/acme/{slug}/agent-card.json").status


def test_an_agent_is_published_by_the_form_unpublished_and_deleted(
    page: Page, hub: HubServer, slug: str, watch: Watch
) -> None:
    page.goto("/#/hub")
    page.get_by_role("link", name="Publish an agent").click()
    field(page, "Owner").fill("acme")
    field(page, "Slug").fill(slug)
    field(page, "Name").fill("Helper <b>one</b>")
    field(page, "Kind").select_option("echo")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("heading", name="Helper <b>one</b>").wait_for()
    assert card_status(page, slug) == 200
    token = hub.new_token(f"for-{slug}", f"acme/{slug}")
    assert "hello" in hub.ask(f"acme/{slug}", "hello", token=token).text

    page.goto("/#/hub/agents")
    row = page.get_by_role("row").filter(has_text=slug)
    row.get_by_role("button", name=f"Unpublish acme/{slug}").click()
    dialog = page.get_by_role("dialog", name=f"Unpublish acme/{slug}?")
    dialog.get_by_role("button", name="Cancel").click()
    assert card_status(page, slug) == 200
    row.get_by_role("button", name=f"Unpublish acme/{slug}").click()
    dialog.get_by_role("button", name=f"Unpublish acme/{slug}").click()
    expect(row).to_contain_text("draft")
    assert card_status(page, slug) == 404

    row.get_by_role("button", name=f"Publish acme/{slug}").click()
    expect(row).to_contain_text("published")
    assert card_status(page, slug) == 200
    row.get_by_role("button", name=f"Delete acme/{slug}").click()
    dialog = page.get_by_role("dialog", name=f"Delete acme/{slug}?")
    dialog.get_by_role("button", name=f"Delete acme/{slug}").click()
    expect(row).to_have_count(0)
    assert card_status(page, slug) == 404


def test_errors_stand_at_the_fields_that_they_name(page: Page, slug: str, watch: Watch) -> None:
    watch.expected.append("status of 400")
    page.goto("/#/hub/agents/new")
    field(page, "Owner").fill("acme")
    field(page, "Slug").fill("Not A Slug")
    page.get_by_role("button", name="Publish").click()
    expect(field(page, "Slug")).to_have_attribute("aria-invalid", "true")
    expect(field(page, "Slug")).to_be_focused()
    field(page, "Slug").fill(slug)
    field(page, "Kind").select_option("openai")
    field(page, "URL").fill("http://127.0.0.1:9/v1")
    page.get_by_role("button", name="Publish").click()
    expect(field(page, "Model")).to_have_attribute("aria-invalid", "true")
    # JSON that is none does not reach the gateway.
    field(page, "Further keys, as JSON").fill("{")
    page.get_by_role("button", name="Publish").click()
    expect(field(page, "Further keys, as JSON")).to_have_attribute("aria-invalid", "true")


def test_a_change_of_somebody_else_is_shown_and_nothing_is_lost(
    page: Page, hub: HubServer, slug: str, watch: Watch
) -> None:
    watch.expected.append("status of 409")
    made = hub.publish(slug, tagline="old")
    page.goto(f"/#/hub/agents/{made['id']}")
    field(page, "Description").fill("mine")
    hub.call("PATCH", f"/agents/{made['id']}", {"tagline": "theirs"})
    page.get_by_role("button", name="Save").click()
    alert = page.get_by_role("alert").filter(has_text="has changed this agent")
    expect(alert).to_contain_text('"old" → "theirs"')
    expect(alert).to_be_in_viewport()
    expect(field(page, "Description")).to_have_value("mine")
    alert.get_by_role("button", name="Load what is stored").click()
    expect(field(page, "Tagline")).to_have_value("theirs")
    field(page, "Description").fill("mine")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("status").filter(has_text="is saved").wait_for()
    now = hub.call("GET", f"/agents/{made['id']}")
    assert (now["tagline"], now["description"]) == ("theirs", "mine")


def test_secrets_of_a_backend_are_not_shown_and_stay_when_something_else_changes(
    page: Page, hub: HubServer, slug: str
) -> None:
    backend = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
    made = hub.publish(slug, backend=backend | {"api_key": "very-secret-key"})
    page.goto(f"/#/hub/agents/{made['id']}")
    field(page, "Tagline").fill("changed")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("status").filter(has_text="is saved").wait_for()
    assert "very-secret-key" not in page.content()
    assert hub.call("GET", f"/agents/{made['id']}")["backend"]["api_key"] == "***"


def test_a_token_is_shown_once_works_and_is_refused_once_it_is_revoked(
    page: Page, hub: HubServer, slug: str
) -> None:
    hub.publish(slug)
    page.goto("/#/hub/tokens")
    page.get_by_role("link", name="Create a token").first.click()
    field(page, "Name").fill(slug)
    field(page, "Agents").fill(f"acme/{slug}")
    page.get_by_role("button", name="Create").click()
    secret = page.get_by_role("region", name=f"The token of {slug}")
    expect(secret).to_contain_text("shown this once")
    token = secret.locator("code.token").inner_text()
    assert token.startswith("tl_key_")
    answer = hub.ask(f"acme/{slug}", "hello", token=token)
    assert (answer.status_code, "hello" in answer.text) == (200, True)

    page.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row").filter(has_text=f"token:{slug}")
    row.wait_for()
    assert token not in page.content()
    row.get_by_role("button", name=f"Revoke {slug}").click()
    dialog = page.get_by_role("dialog", name=f"Revoke {slug}?")
    dialog.get_by_role("button", name=f"Revoke {slug}").click()
    expect(row).to_have_count(0)
    assert hub.ask(f"acme/{slug}", "hello", token=token).status_code == 401


def test_a_token_is_rotated(page: Page, hub: HubServer, slug: str) -> None:
    hub.publish(slug)
    old = hub.new_token(slug, f"acme/{slug}")
    page.goto("/#/hub/tokens")
    row = page.get_by_role("row").filter(has_text=f"token:{slug}")
    row.get_by_role("button", name=f"Rotate {slug}").click()
    row.get_by_role("combobox").select_option(label="Refuse the old one at once")
    secret = page.get_by_role("region", name=f"The token of {slug}")
    new = secret.locator("code.token").inner_text()
    assert hub.ask(f"acme/{slug}", "hello", token=old).status_code == 401
    assert hub.ask(f"acme/{slug}", "hello", token=new).status_code == 200


def test_rows_of_the_audit_come_by_themselves_are_found_and_verified(
    page: Page, hub: HubServer, slug: str
) -> None:
    token = hub.new_token(f"audited-{slug}", f"acme/{slug}")
    page.goto("/#/hub/audit")
    grid = page.get_by_role("grid", name="Rows of the audit")
    grid.wait_for()
    hub.publish(slug)
    hub.ask(f"acme/{slug}", "hello", token=token)
    expect(grid.get_by_role("row").filter(has_text=slug).first).to_be_visible()
    page.get_by_label("Kind").select_option("attempt")
    page.get_by_label("Filter rows").fill(f"acme/{slug}")
    rows = grid.get_by_role("row")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"SendMessage acme/{slug}")
    assert "kind=attempt" in page.url
    rows.click()
    detail = page.get_by_role("region", name="Row of the audit")
    expect(detail).to_contain_text(f"token:audited-{slug}")
    expect(detail).to_contain_text("hello")
    # The address alone shows the same again.
    page.reload()
    expect(detail).to_contain_text(f"token:audited-{slug}")

    page.get_by_role("button", name="Verify all rows").click()
    verification = page.get_by_role("region", name="Verification")
    expect(verification.get_by_role("status")).to_contain_text(re.compile(r"Sound: [\d,]+ rows"))


def test_budgets_and_calls_are_charts_with_their_figures(page: Page, busy: str) -> None:
    page.goto("/#/hub")
    budgets = page.get_by_role("list", name="Budgets today")
    expect(budgets).to_contain_text("3 of 3, used up")
    expect(page.get_by_role("region", name="Problems")).to_contain_text(
        "acme/busy has used up its budget"
    )
    budgets.get_by_role("link", name="acme/busy").click()
    page.get_by_role("img", name="Calls per day, highest 5").wait_for()
    page.get_by_role("img", name=re.compile("Mean time per day")).wait_for()
    page.get_by_role("button", name="Calls per day as a table").click()
    today = page.get_by_role("region", name="Calls per day").get_by_role("row").last
    assert today.inner_text().split()[1:] == ["3", "2", "0"]
    expect(page.get_by_role("table", name="Latest calls")).to_contain_text("question 4")
    page.get_by_label("Days").select_option("30")
    expect(page).to_have_url(re.compile("days=30"))


def test_grants_are_given_and_taken(page: Page, hub: HubServer, slug: str) -> None:
    made = hub.publish(slug, visibility="private")
    page.goto(f"/#/hub/agents/{made['id']}")
    page.get_by_label("Give a grant to").fill("user:carol")
    page.get_by_role("button", name="Give", exact=True).click()
    row = page.get_by_role("row").filter(has_text="user:carol")
    row.get_by_role("button", name="Take away the grant of user:carol").click()
    page.get_by_role("dialog").get_by_role("button", name="Take the grant of user:carol").click()
    expect(row).to_have_count(0)
    assert hub.call("GET", f"/agents/{made['id']}/grants")["items"] == []


def test_a_session_shows_what_was_said_and_ends(page: Page, hub: HubServer, slug: str) -> None:
    hub.publish(slug)
    token = hub.new_token(f"talker-{slug}", f"acme/{slug}")
    hub.ask(f"acme/{slug}", "a **bold** question", token=token)
    page.goto(f"/#/hub/sessions?agent=acme%2F{slug}")
    row = page.get_by_role("row").filter(has_text=f"acme/{slug}")
    row.get_by_role("link").first.click()
    expect(page.locator(".transcript pre.said")).to_have_text("a **bold** question")
    expect(page.locator(".transcript .markdown strong")).to_have_text("bold")
    page.get_by_role("button", name="End the session").click()
    page.get_by_role("dialog").get_by_role(
        "button", name=f"End the session with acme/{slug}"
    ).click()
    page.get_by_role("heading", name="Sessions").wait_for()
    page.goto(f"/#/hub/sessions?agent=acme%2F{slug}")
    page.get_by_role("heading", name="No session is open").wait_for()


def test_people_who_are_no_operators_see_what_is_theirs(
    browser_page: Page, hub: HubServer, slug: str, watch: Watch
) -> None:
    page = browser_page
    hub.publish(slug)
    mine = hub.publish(slug, owner=OWNER)
    sign_in(page, OWNER)
    page.goto("/#/hub")
    tabs = page.get_by_role("navigation", name="Hub").get_by_role("link")
    expect(tabs).to_have_text(["Overview", "Agents", "Tokens", "Sessions"])
    page.goto("/#/hub/agents")
    page.get_by_role("row").filter(has_text=mine["handle"]).wait_for()
    expect(page.get_by_text(f"acme/{slug}")).to_have_count(0)
    page.goto("/#/hub/audit")
    page.get_by_role("heading", name="There is no such page here").wait_for()
    # A key of the person's own, which no form offers more for than it would get.
    page.goto("/#/hub/tokens/new")
    expect(page.get_by_label("Also every public agent")).to_have_count(0)
    field(page, "Name").fill(slug)
    page.get_by_role("button", name="Create").click()
    token = page.locator("code.token").inner_text()
    assert "hello" in hub.ask(f"{OWNER}/{slug}", "hello", token=token).text
    page.goto("/#/hub/tokens")
    expect(page.get_by_role("row").filter(has_text="this session")).to_contain_text("session")
    expect(page.get_by_text("token:caller")).to_have_count(0)


def test_an_agent_is_published_by_the_keyboard_alone(page: Page, hub: HubServer, slug: str) -> None:
    page.goto("/#/hub/agents/new")
    page.get_by_role("heading", name="Publish an agent").wait_for()
    keyboard = page.keyboard

    def tab_to(label: str) -> None:
        for _ in range(60):
            keyboard.press("Tab")
            name = page.evaluate(
                "document.activeElement.labels?.[0]?.querySelector('.label, span')?.textContent"
                " ?? document.activeElement.textContent.trim()"
            )
            if name == label:
                return
        raise AssertionError(f"no element {label} is reached with the keyboard")

    tab_to("Owner")
    keyboard.type("acme")
    keyboard.press("Tab")
    keyboard.type(slug)
    tab_to("Visibility")
    keyboard.type("Priv")
    tab_to("Kind")
    keyboard.type("Echo")
    tab_to("Publish")
    keyboard.press("Enter")
    page.get_by_role("heading", name=slug).wait_for()
    made = hub.call("GET", f"/agents/by-handle/acme/{slug}")
    assert (made["status"], made["visibility"]) == ("published", "private")
    # The dialog takes the focus, and gives it back.
    tab_to("Delete")
    keyboard.press("Enter")
    page.get_by_role("dialog", name=f"Delete acme/{slug}?").wait_for()
    keyboard.press("Escape")
    expect(page.get_by_role("button", name=f"Delete acme/{slug}")).to_be_focused()


def test_no_view_has_a_barrier(page: Page, axe: Axe, busy: str) -> None:
    found = {}
    for view in VIEWS:
        open_view(page, view.format(id=busy))
        if barriers := axe.in_both_themes(page):
            found[view] = barriers
    assert found == {}


def test_every_view_fits_a_phone(page: Page, busy: str) -> None:
    page.set_viewport_size({"width": 375, "height": 812})
    for view in VIEWS:
        open_view(page, view.format(id=busy))
        wide = page.evaluate(
            "[document.documentElement.scrollWidth, document.getElementById('view').scrollWidth]"
        )
        assert max(wide) <= 375, (view, wide)


def open_view(page: Page, view: str) -> None:
    page.goto(f"/{view}")
    page.locator("#view h1").wait_for()
    expect(page.locator("#view .loading")).to_have_count(0)


def test_the_menu_of_an_operator_has_every_tab(browser_page: Page, watch: Watch) -> None:
    sign_in(browser_page, ADMIN)
    browser_page.goto("/#/hub")
    tabs = browser_page.get_by_role("navigation", name="Hub").get_by_role("link")
    names = "Overview Agents Tokens People Audit Sessions Relay Nodes"
    expect(tabs).to_have_text(names.split())
    for name in names.split()[1:]:
        tabs.filter(has_text=name).click()
        expect(tabs.filter(has_text=name)).to_have_attribute("aria-current", "page")
        browser_page.locator("#view h1").wait_for()
