"""The chat in Chromium: what is sent, what is shown, and that no event is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from tests.acceptance.gateway import Gateway, gateway
from tests.browser.conftest import Axe, Watch, new_code
from tests.browser.world import CODE, CONFIG

MORE_CONFIG = """
[agents."demo/clerk"]
backend = { kind = "python", target = "code.py:clerk" }

[agents."demo/greeter"]
backend = { kind = "python", target = "code.py:greeter" }

[agents."demo/flood"]
backend = { kind = "python", target = "code.py:flood" }

[agents."demo/stubborn"]
name = "Stubborn"
description = "Cannot be stopped"
cancel = "unsupported"
backend = { kind = "scripted" }
"""

MORE_CODE = """

SCHEMA = {
    "type": "object",
    "title": "Delivery",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "pieces": {"type": "integer", "minimum": 1, "maximum": 9},
        "colour": {"enum": ["red", "blue"]},
        "gift": {"type": "boolean"},
    },
    "required": ["name", "pieces"],
}


@agent(name="Clerk", skills=[{"id": "sell", "name": "Sell", "examples": ["size"]}])
async def clerk(turn):
    if turn.asked is not None:
        yield f"You said {turn.text!r} {[dict(value) for value in turn.data]}"
    elif turn.text == "size":
        yield turn.ask("Which size?", {"choices": ["S", "M"]})
    elif turn.text == "form":
        yield turn.ask("Please fill this in.", {"schema": SCHEMA})
    elif turn.text == "sign":
        yield turn.need_auth("Allow access at https://example.com/connect")
    else:
        call = turn.tool("shell", {"command": turn.text})
        yield call
        approval = {"type": "approval_request", "prompt": f"Run {turn.text!r}?"}
        yield call.result({"status": "needs_approval", "requiresApproval": approval})


@agent(direct=True)
async def greeter(turn):
    return turn.reply(f"Hello, {turn.text}!")


@agent
async def flood(turn):
    count, size = (int(word) for word in turn.text.split())
    for number in range(count):
        yield str(number % 10) * size
    yield " end"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("chat")
    (folder / "code.py").write_text(CODE + MORE_CODE)
    with gateway(folder, CONFIG + MORE_CONFIG) as running:
        yield running.start()


SEND = """async ([method, url, body]) => {
  const headers = { "Trunkline-Page": "1", "Content-Type": "application/json" };
  const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
}"""


def chat_with(page: Page, slug: str) -> None:
    page.goto(f"{page.url.split('#')[0]}#/chat/demo/{slug}")
    page.get_by_role("textbox", name="Message").wait_for()


def say(page: Page, text: str) -> None:
    field = page.get_by_role("textbox", name="Message")
    field.fill(text)
    field.press("Enter")


def log_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Conversation", exact=True)


def completed(page: Page, times: int = 1) -> None:
    expect(log_of(page).locator(".task-end .state")).to_have_text(["completed"] * times)


def task_of(page: Page, served: Gateway, slug: str) -> dict[str, Any]:
    """The task that the last bubble links to, as the gateway holds it."""
    link = log_of(page).locator(".task-end a[href*='#/tasks/']").last.get_attribute("href")
    assert link
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": link.split("/")[-1]}}
    answer = httpx.post(
        served.agent_url(f"demo/{slug}"), json=body, headers={"A2A-Version": "1.0"}, timeout=30
    )
    result: dict[str, Any] = answer.json()["result"]
    return result


def answer_text(task: dict[str, Any]) -> str:
    parts = [part for each in task["artifacts"] for part in each["parts"]]
    return "".join(part.get("text", "") for part in parts)


def copied(page: Page) -> str:
    """The text of the last answer as the page would copy it."""
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copiedText = text; }")
    log_of(page).locator(".bubble.theirs").last.get_by_role("button", name="Copy").last.click()
    page.wait_for_function("() => window.copiedText !== undefined")
    text: str = page.evaluate("window.copiedText")
    return text


def test_streams_markdown(page: Page, served: Gateway) -> None:
    chat_with(page, "writer")
    say(page, "hello")
    completed(page)
    log = log_of(page)
    expect(log.get_by_role("heading", name="A heading")).to_be_visible()
    expect(log.locator("strong")).to_have_text("bold")
    expect(log.get_by_role("cell", name="2")).to_be_visible()
    link = log.get_by_role("link", name="link", exact=True)
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    task = task_of(page, served, "writer")
    assert page.url.endswith(f"#/chat/demo/writer/{task['contextId']}")
    wire = log.locator(".bubble.theirs").get_by_role("link", name="Wire")
    assert wire.get_attribute("href") == f"#/inspector?taskId={task['id']}"
    assert copied(page) == answer_text(task)
    talks = page.get_by_role("complementary", name="Conversations")
    expect(talks.get_by_text("hello", exact=True)).to_be_visible()
    assert "✓ Writer" in page.title()


def test_answers_a_question_in_the_same_task(page: Page) -> None:
    chat_with(page, "planner")
    say(page, "a trip")
    expect(log_of(page).get_by_text("How many days?")).to_be_visible()
    expect(page.get_by_text("in the same task")).to_be_visible()
    say(page, "2")
    completed(page)
    for _ in range(2):
        bubbles = log_of(page).locator(".bubble > :not(.actions):not(h2):not(.hint)")
        expect(bubbles).to_have_text(
            ["a trip", "How many days?", "2", "Day 1: explore. Day 2: explore."]
        )
        page.reload()


def test_options_forms_approvals_and_sign_in(page: Page) -> None:
    chat_with(page, "clerk")
    page.get_by_role("button", name="size").click()  # the example of its skill
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("button", name="M", exact=True).click()
    expect(log_of(page).get_by_text("You said 'M' []")).to_be_visible()
    say(page, "form")
    form = log_of(page).locator("form")
    form.get_by_label("Your name (required)").fill("A")
    form.get_by_role("button", name="Answer").click()
    expect(form.get_by_text("At least 2 characters.")).to_be_visible()
    expect(form.get_by_text("Fill this in.")).to_be_visible()
    form.get_by_label("Your name (required)").fill("Ada")
    form.get_by_label("pieces (required)").fill("3")
    form.get_by_label("colour").select_option("blue")
    form.get_by_label("gift").check()
    form.get_by_role("button", name="Answer").click()
    answer = "{'name': 'Ada', 'pieces': 3, 'colour': 'blue', 'gift': True}"
    expect(log_of(page).get_by_text(answer)).to_be_visible()
    say(page, "reboot")
    page.get_by_role("button", name="Approve").click()
    expect(log_of(page).get_by_text("You said 'yes' []")).to_be_visible()
    say(page, "sign")
    page.get_by_role("button", name="I have done this").click()
    completed(page, 4)


def test_tools_data_and_files_out(page: Page) -> None:
    chat_with(page, "worker")
    say(page, "whales")
    completed(page)
    log = log_of(page)
    step = log.locator(".tool")
    expect(step).to_contain_text("search done")
    step.locator("summary").click()
    expect(step.locator(".badge")).to_have_text(["start", "update", "result"])
    expect(log.get_by_text("42", exact=True)).to_be_visible()
    picture = log.get_by_role("img", name="dot.png")
    expect(picture).to_have_js_property("naturalWidth", 1)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save notes.csv").click()
    assert saved.value.suggested_filename == "notes.csv"
    assert Path(saved.value.path()).read_bytes() == b"a,b\n1,2\n"


def test_files_in(page: Page, tmp_path: Path) -> None:
    chat_with(page, "scripted")
    picture = tmp_path / "dot.png"
    pixel = CODE.split('fromhex(\n    "')[1].split('"\n)')[0].replace('"\n    "', "")
    picture.write_bytes(bytes.fromhex(pixel))
    page_file = tmp_path / "page.html"
    page_file.write_text("<b>hello</b>")
    chooser = page.locator("input[type=file]")
    chooser.set_input_files([picture, page_file])
    expect(page.get_by_text("page.html is text/html, and this agent accepts")).to_be_visible()
    attached = page.get_by_role("list", name="Files of the message")
    expect(attached.locator("img")).to_have_js_property("naturalWidth", 1)
    expect(attached).to_contain_text("dot.png image/png, 70 B")
    page.get_by_role("button", name="Remove dot.png").click()
    expect(attached).to_have_count(0)
    # Dropped this time.
    page.evaluate(
        """(hex) => {
          const bytes = Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], "dropped.png", { type: "image/png" }));
          document.querySelector("form.composer").dispatchEvent(
            new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        pixel,
    )
    expect(attached).to_contain_text("dropped.png")
    say(page, "show message")
    completed(page)
    expect(log_of(page).locator(".mine")).to_contain_text("dropped.png")
    expect(log_of(page).locator(".theirs")).to_contain_text("parts: [ ] 2 items".replace(": ", ""))


def open_gate(served: Gateway, agent: str, gate: str) -> None:
    """Let a script of this agent go on behind its `wait GATE`."""
    message = {"messageId": "gate", "role": "ROLE_USER", "parts": [{"text": f"open {gate}"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    httpx.post(served.agent_url(agent), json=body, headers={"A2A-Version": "1.0"}, timeout=30)


def test_stop_says_what_came_of_it(page: Page, served: Gateway) -> None:
    chat_with(page, "scripted")
    say(page, "say so far; hang")
    expect(log_of(page).get_by_text("so far", exact=True)).to_be_visible()
    assert "… Scripted" in page.title()
    log_of(page).get_by_role("button", name="Stop").click()
    expect(log_of(page).locator(".task-end .state")).to_have_text("canceled")
    chat_with(page, "stubborn")
    say(page, "say so far; wait stop; say finished")
    log_of(page).get_by_role("button", name="Stop").click()
    expect(log_of(page).get_by_text("the agent does not support stopping")).to_be_visible()
    open_gate(served, "demo/stubborn", "stop")
    completed(page)


def start_waiting(page: Page, gate: Path) -> None:
    chat_with(page, "writer")
    say(page, f"wait {gate}")
    expect(log_of(page).get_by_text("waiting")).to_be_visible()


def test_reload_in_the_middle_of_a_stream(page: Page, served: Gateway, tmp_path: Path) -> None:
    start_waiting(page, tmp_path / "go")
    page.reload()
    expect(log_of(page).get_by_text("waiting", exact=True)).to_be_visible()
    (tmp_path / "go").touch()
    completed(page)
    assert copied(page) == answer_text(task_of(page, served, "writer"))


def test_lost_connections(page: Page, watch: Watch, served: Gateway) -> None:
    """Each stream breaks after six events, and the next one goes on behind them."""
    watch.expected.append("ERR_")
    agents = httpx.get(f"{served.url}/api/v1/agents").json()["items"]
    agent = next(each["id"] for each in agents if each["handle"] == "demo/writer")
    fault = f"{served.url}/api/v1/agents/{agent}/fault"
    page.evaluate(SEND, ["PUT", fault, {"cutAfterEvents": 6, "seconds": 60}])
    try:
        chat_with(page, "writer")
        say(page, "hello")
        completed(page)
    finally:
        page.evaluate(SEND, ["DELETE", fault, None])
    assert copied(page) == answer_text(task_of(page, served, "writer"))


def test_gateway_restarts(page: Page, watch: Watch, served: Gateway, tmp_path: Path) -> None:
    watch.expected += ["ERR_", "401"]
    start_waiting(page, tmp_path / "go")
    port = served.port
    served.kill()
    page.get_by_text("The connection is lost").wait_for()
    served.start("--port", str(port))
    # A function in Python does not outlive its process, and the page says so.
    expect(log_of(page).locator(".task-end .state")).to_have_text("failed")
    task = task_of(page, served, "writer")
    reason = task["status"]["message"]["parts"][0]["text"]
    expect(log_of(page).get_by_text(reason)).to_be_visible()


def test_signed_out_in_the_middle(
    page: Page, context: BrowserContext, watch: Watch, served: Gateway, tmp_path: Path
) -> None:
    watch.expected += ["ERR_", "401"]
    start_waiting(page, tmp_path / "go")
    page.get_by_role("textbox", name="Message").fill("a draft")
    context.clear_cookies()
    page.evaluate(
        "import('/console/lib/api.js').then(({ api }) => api('/auth/me').catch(() => {}))"
    )
    dialog = page.get_by_role("dialog", name="You are signed out")
    dialog.wait_for()
    (tmp_path / "go").touch()
    other = context.new_page()
    other.goto(new_code(served))
    other.close()
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(dialog).to_have_count(0)
    completed(page)
    assert copied(page) == answer_text(task_of(page, served, "writer"))
    expect(page.get_by_role("textbox", name="Message")).to_have_value("a draft")


def test_replies_without_a_task_and_drafts_are_kept(page: Page) -> None:
    chat_with(page, "greeter")
    say(page, "Ada")
    expect(log_of(page).get_by_text("Hello, Ada!")).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("not sent yet")
    where = page.url
    chat_with(page, "writer")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")
    page.goto(where)
    page.reload()
    expect(log_of(page).get_by_text("Hello, Ada!")).to_be_visible()
    expect(log_of(page).locator(".mine")).to_contain_text("Ada")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("not sent yet")


def test_conversations_go_on_side_by_side(page: Page, tmp_path: Path) -> None:
    start_waiting(page, tmp_path / "go")
    first = page.url
    chat_with(page, "planner")
    say(page, "another")
    expect(log_of(page).get_by_text("How many days?")).to_be_visible()
    talks = page.get_by_role("complementary", name="Conversations")
    expect(talks.get_by_text("running")).to_be_visible()
    (tmp_path / "go").touch()
    expect(talks.get_by_text("running")).to_have_count(0)
    page.goto(first)
    expect(log_of(page).get_by_text("done waiting")).to_be_visible()


def test_edit_as_a_branch_and_send_again(page: Page) -> None:
    chat_with(page, "scripted")
    say(page, "say one")
    completed(page)
    log_of(page).get_by_role("button", name="Send again").click()
    completed(page, 2)
    first = page.url
    log_of(page).get_by_role("button", name="Edit in a new conversation").first.click()
    field = page.get_by_role("textbox", name="Message")
    expect(field).to_have_value("say one")
    say(page, "say two")
    completed(page)
    assert page.url != first


def test_versions_and_bindings(page: Page) -> None:
    chat_with(page, "planner")
    way = page.get_by_label("Version and binding")
    for name in way.locator("option").all_inner_texts():
        chat_with(page, "planner")
        page.get_by_role("link", name="New").last.click()
        way.select_option(name)
        say(page, "a trip")
        expect(log_of(page).get_by_text("How many days?")).to_be_visible()
        say(page, "1")
        completed(page)
        expect(log_of(page).get_by_text("Day 1: explore.")).to_be_visible()


def test_compare_two_agents(page: Page, served: Gateway) -> None:
    page.goto(f"{served.url}/#/chat/compare?a=demo/echo&b=demo/writer")
    page.get_by_role("textbox", name="Message").wait_for()
    say(page, "the same words")
    for side, text in (("First agent", "the same words"), ("Second agent", "A heading")):
        part = page.get_by_role("region", name=side)
        expect(part.locator(".theirs")).to_contain_text(text)
        expect(part.get_by_text("Whole: ")).not_to_contain_text("running")


@pytest.mark.parametrize(("count", "size"), [(20_000, 1), (10, 1_000_000)], ids=["deltas", "10 MB"])
def test_long_answers_do_not_freeze(page: Page, served: Gateway, count: int, size: int) -> None:
    chat_with(page, "flood")
    page.evaluate(
        """() => { window.longest = 0; new PerformanceObserver((list) => {
          for (const { duration } of list.getEntries())
            window.longest = Math.max(window.longest, duration);
        }).observe({ type: "longtask" }); }"""
    )
    say(page, f"{count} {size}")
    expect(log_of(page).locator(".task-end .state")).to_have_text("completed", timeout=60_000)
    print("longest task in ms:", page.evaluate("() => window.longest"))
    assert copied(page) == answer_text(task_of(page, served, "flood"))
    assert len(log_of(page).inner_text()) < 200_000


def test_reader_scrolls_freely(page: Page, served: Gateway) -> None:
    chat_with(page, "scripted")
    say(page, "stream 400 of 60; wait scroll; say the end")
    log = log_of(page)
    page.wait_for_function("() => document.querySelector('.log').scrollTop > 500")
    log.evaluate("(box) => { box.scrollTop = 0; }")
    back = page.get_by_role("button", name="New text below")
    back.wait_for()
    open_gate(served, "demo/scripted", "scroll")
    completed(page)
    assert log.evaluate("(box) => box.scrollTop") == 0
    page.get_by_role("button", name="To the end").click()
    expect(page.get_by_role("button", name="To the end")).to_have_count(0)


def test_accessible_and_narrow(page: Page, axe: Axe) -> None:
    page.set_viewport_size({"width": 375, "height": 812})
    for slug, text in (("worker", "x"), ("clerk", "form")):
        chat_with(page, slug)
        say(page, text)
        log_of(page).locator(".task-end").wait_for()
        assert axe.in_both_themes(page) == []
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375
