"""The steps of the page of seed 003: sign in, pick an agent, fetch its card, exchange a task.

The session is the same-origin cookie of the sign-in, as there.
"""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.acceptance.gateway import Gateway
from tests.browser.conftest import Watch
from tests.browser.hub_world import ADMIN, OWNER, PASSWORD, HubServer, sign_in

# What the reference page of the seed sends: no A2A-Version, names of A2A 1.0.
EXCHANGE = """async (path) => {
  const agents = await (await fetch("/api/v1/agents?q=rust")).json();
  const agent = agents.items.find(({ handle }) => handle === "mriiot/rust-expert");
  const address = `/api/a2a/v1/agents/${agent.handle}`;
  const card = await (await fetch(`${address}/agent-card.json`)).json();
  const response = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0", id: "1", method: "SendMessage",
      params: { message: { messageId: "msg-1", role: "ROLE_USER",
        parts: [{ text: "what's a lifetime?" }] } },
    }),
  });
  return { card, status: response.status, answer: await response.json() };
}"""


@pytest.fixture(scope="session")
def served(hub: HubServer) -> Gateway:
    return hub.running


@pytest.fixture(scope="session")
def expert(hub: HubServer) -> str:
    """The id of the agent of the seed."""
    made = hub.publish(
        "rust-expert",
        owner="mriiot",
        name="rust expert",
        description="answers Rust questions",
        profile="hub",
    )
    found: str = made["id"]
    return found


@pytest.fixture
def visitor(context: BrowserContext, watch: Watch) -> Page:
    """A tab that nobody is signed in at."""
    # Before the sign-in, the page asks who its user is.
    watch.expected.append("status of 401")
    return context.new_page()


def test_the_steps_of_the_seed_in_the_page(
    visitor: Page, hub: HubServer, expert: str, watch: Watch
) -> None:
    page = visitor
    # Authenticate.
    page.goto("/")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Login").fill(OWNER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    # Step 1: pick an agent.
    page.get_by_label("Filter agents").fill("rust-expert")
    agent = page.get_by_role("article").filter(has_text="mriiot/rust-expert")
    # Step 2: fetch the card.
    agent.get_by_role("link", name="rust expert").click()
    page.get_by_role("heading", name="rust expert", level=1).wait_for()
    expect(page.locator("#view")).to_contain_text("answers Rust questions")
    # Step 3: exchange a task.
    page.goto("/#/chat/mriiot/rust-expert")
    page.get_by_role("textbox", name="Message").fill("what's a lifetime?")
    page.get_by_role("button", name="Send").click()
    answer = page.get_by_role("article", name="rust expert")
    expect(answer).to_contain_text("what's a lifetime?")
    expect(page.get_by_text("completed").first).to_be_visible()
    # The query counts, and the audit names the person.
    found = hub.call("GET", f"/agents/{expert}")
    assert found["queriesToday"] >= 1
    (row,) = hub.call("GET", "/audit?agent=mriiot/rust-expert&kind=attempt&pageSize=1")["items"]
    assert (row["who"], row["operation"]) == (f"user:{OWNER}", "SendStreamingMessage")
    recent = hub.call("GET", f"/agents/{expert}/inbound")["recent"]
    assert recent[0]["askerLogin"] == OWNER


def test_the_requests_of_the_seed_work_with_the_cookie_alone(
    visitor: Page, hub: HubServer, expert: str
) -> None:
    page = visitor
    sign_in(page, OWNER)
    found = page.evaluate(EXCHANGE)
    assert found["card"]["skills"][0]["id"] == "ask"
    assert found["status"] == 200
    task = found["answer"]["result"]
    assert task["status"]["state"] == "COMPLETED"
    assert task["history"][-1]["parts"] == [{"text": "what's a lifetime?"}]
    assert expert
    # No script can read the session.
    assert "tl_session" not in page.evaluate("document.cookie")


def test_an_agent_that_is_unpublished_is_gone_at_once(
    visitor: Page, hub: HubServer, watch: Watch
) -> None:
    page = visitor
    made = hub.publish("short-lived", owner="mriiot")
    sign_in(page, ADMIN)
    page.get_by_label("Filter agents").fill("short-lived")
    cards = page.get_by_role("article").filter(has_text="mriiot/short-lived")
    expect(cards).to_have_count(1)
    card = "/api/a2a/v1/agents/mriiot/short-lived/agent-card.json"
    assert page.request.get(card).status == 200
    page.goto(f"/#/hub/agents/{made['id']}")
    page.get_by_role("button", name="Unpublish mriiot/short-lived").click()
    dialog = page.get_by_role("dialog", name="Unpublish mriiot/short-lived?")
    dialog.get_by_role("button", name="Unpublish mriiot/short-lived").click()
    # The name of the other button contains this one.
    page.get_by_role("button", name="Publish mriiot/short-lived", exact=True).wait_for()
    assert page.request.get(card).status == 404
    page.goto("/#/hub/agents?status=published&q=short-lived")
    page.get_by_role("heading", name="No agent fits this filter").wait_for()


def test_sign_out_ends_the_session_in_this_browser_and_at_the_gateway(
    visitor: Page, context: BrowserContext, expert: str
) -> None:
    page = visitor
    sign_in(page, OWNER)
    cookies = {each["name"]: each["value"] for each in context.cookies()}
    session = cookies["tl_session"]
    me = "/api/v1/auth/me"
    headers = {"Authorization": f"Bearer {session}"}
    assert page.request.get(me, headers=headers).status == 200
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Sign in").wait_for()
    assert [each for each in context.cookies() if each["name"] == "tl_session"] == []
    assert page.request.get(me, headers=headers).status == 401
    page.goto("/#/hub/tokens")
    page.get_by_role("link", name="Sign in").wait_for()
    assert expert


def test_a_wrong_password_signs_nobody_in(visitor: Page, watch: Watch) -> None:
    page = visitor
    watch.expected.append("status of 4")
    page.goto("/api/v1/auth/oauth/start?next=/")
    page.get_by_label("Login").fill(OWNER)
    page.get_by_label("Password").fill("wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("password", re.IGNORECASE))
