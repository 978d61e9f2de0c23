"""The inspector and the page of an agent."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect
from tests.acceptance.gateway import Gateway
from tests.browser.conftest import Axe, Watch

WRITER = "/api/a2a/v1/agents/demo/writer"
PLANNER = "/api/a2a/v1/agents/demo/planner"
# What would run if a text became an element or an address.
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"

# By the modules of the page, so that a request goes as the page would send it.
_API = """async ([path, method, body]) =>
    (await import("/console/lib/api.js")).api(path, { method, body: body ?? undefined })"""
_SEND = """async ([path, version, body]) => {
    const { request } = await import("/console/lib/api.js");
    const headers = { "Content-Type": "application/json", "A2A-Version": version };
    const response = await request(path, { method: "POST", headers, body: JSON.stringify(body) });
    try { return await response.text(); } catch { return "broken off"; }
}"""


def api(page: Page, path: str, method: str = "GET", body: Any = None) -> Any:
    return page.evaluate(_API, [path, method, body])


def agent_id(page: Page, handle: str) -> str:
    return str(api(page, f"/agents/by-handle/{handle}")["id"])


def record(page: Page, *handles: str) -> None:
    """Begin with an empty log that records these agents alone."""
    for agent in api(page, "/wire/settings")["agents"]:
        body = {"on": agent["handle"] in handles}
        api(page, f"/wire/agents/{agent['id']}", "PUT", body)
    api(page, "/wire", "DELETE")


def send(page: Page, path: str, text: str, *, stream: bool = False, version: str = "1.0") -> str:
    part = {"text": text} if version == "1.0" else {"kind": "text", "text": text}
    role = "ROLE_USER" if version == "1.0" else "user"
    message: dict[str, Any] = {"messageId": f"m-{text}", "role": role, "parts": [part]}
    if version == "0.3":
        message["kind"] = "message"
    methods = {
        ("1.0", False): "SendMessage",
        ("1.0", True): "SendStreamingMessage",
        ("0.3", False): "message/send",
        ("0.3", True): "message/stream",
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": methods[version, stream],
        "params": {"message": message},
    }
    return str(page.evaluate(_SEND, [path, version, body]))


def go(page: Page, place: str) -> None:
    page.evaluate("place => { location.hash = place; }", place)


def rows(page: Page) -> Any:
    return page.get_by_role("grid", name="Exchanges").get_by_role("row")


def open_row(page: Page, name: str) -> None:
    rows(page).get_by_role("link", name=name).first.click()
    page.get_by_role("heading", name=name).wait_for()


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_an_empty_log_says_how_to_record_and_fills_live(page: Page) -> None:
    record(page)
    go(page, "#/inspector")
    page.get_by_role("heading", name="Nothing is recorded").wait_for()
    page.get_by_role("switch", name="demo/echo").click(force=True)
    page.get_by_role("heading", name="No requests yet").wait_for()
    send(page, "/a2a/jsonrpc", "first")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("demo/echo")
    expect(rows(page)).to_contain_text("200")
    # The verdict comes when the row has been in sight for a moment.
    expect(rows(page)).to_contain_text("ok")


def test_live_rows_obey_a_filter_that_is_in_the_address(page: Page) -> None:
    record(page, "demo/echo", "demo/writer")
    go(page, "#/inspector")
    send(page, "/a2a/jsonrpc", "one")
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("agent:demo/writer status:<400")
    page.get_by_role("heading", name="No exchange matches this filter").wait_for()
    assert "q=agent%3Ademo%2Fwriter" in page.url
    send(page, "/a2a/jsonrpc", "two")
    send(page, WRITER, "three")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("demo/writer")
    page.reload()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Filter exchanges")).to_have_value(
        "agent:demo/writer status:<400"
    )
    page.get_by_role("searchbox", name="Filter exchanges").fill("status:many")
    expect(page.get_by_role("alert")).to_contain_text("takes a number")


def test_words_are_found_in_bodies(page: Page) -> None:
    record(page, "demo/echo")
    go(page, "#/inspector?q=needle-in-a-body")
    send(page, "/a2a/jsonrpc", "hay")
    send(page, "/a2a/jsonrpc", "a needle-in-a-body here")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="of 2")).to_be_visible()


def test_pause_clear_and_pin(page: Page) -> None:
    record(page, "demo/echo")
    go(page, "#/inspector")
    send(page, "/a2a/jsonrpc", "one")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    send(page, "/a2a/jsonrpc", "two")
    expect(page.get_by_text("paused, 1 new")).to_be_visible()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name="Pin", exact=True).first.click()
    page.get_by_role("button", name="Clear").click()
    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Show all again").click()
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name="Pinned").click()
    expect(rows(page)).to_have_count(1)


def test_one_exchange_with_its_events_and_a_search_inside(page: Page) -> None:
    record(page, "demo/writer")
    go(page, "#/inspector")
    send(page, WRITER, "write", stream=True)
    open_row(page, "SendStreamingMessage")
    events = page.get_by_role("grid", name="Events")
    expect(events.get_by_role("row").first).to_contain_text("TASK_STATE_SUBMITTED")
    events.get_by_role("row").first.click()
    expect(page.get_by_role("tree", name="Event 1")).to_contain_text("jsonrpc")
    expect(page.get_by_role("table", name="Request headers")).to_contain_text("a2a-version")
    page.get_by_role("searchbox", name="Search this exchange").fill("heading")
    expect(page.get_by_role("list", name="Places")).to_contain_text("event")
    expect(page.locator("mark").first).to_have_text("heading")
    tab(page, "Checks")
    expect(page.get_by_text("Each event and their order follow the rules.")).to_be_visible()


def test_the_copied_curl_works(
    page: Page, context: BrowserContext, served: Gateway, watch: Watch
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    record(page, "demo/echo")
    go(page, "#/inspector")
    text = 'it\'s $(touch /tmp/never) `id` "quoted" – ünï'
    send(page, "/a2a/jsonrpc", text)
    open_row(page, "SendMessage")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    line = page.evaluate("() => navigator.clipboard.readText()")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (
        text
        in json.loads(json.dumps(json.loads(done.stdout)))["result"]["task"]["history"][0]["parts"][
            0
        ]["text"]
    )
    # The same as a program.
    tab(page, "As a command")
    program = page.get_by_label("Python", exact=True).text_content() or ""
    done = subprocess.run(["python3", "-c", program], capture_output=True, text=True, check=True)
    assert "TASK_STATE_COMPLETED" in done.stdout
    assert "trunkline send" in (page.get_by_label("CLI", exact=True).text_content() or "")


def test_a_masked_header_becomes_a_variable(page: Page, watch: Watch, served: Gateway) -> None:
    watch.expected.append("401")
    record(page, "demo/echo")
    secret = "Authorization: Bearer very-secret-value"
    kind = "Content-Type: application/json"
    command = ["curl", "-sS", "-H", secret, "-H", kind, "-d", "{}", served.jsonrpc_url]
    subprocess.run(command, check=True, capture_output=True)
    go(page, "#/inspector")
    expect(rows(page)).to_have_count(1)
    rows(page).get_by_role("link").first.click()
    expect(page.locator("body")).not_to_contain_text("very-secret-value")
    tab(page, "As a command")
    expect(page.get_by_label("curl", exact=True)).to_contain_text("$TRUNKLINE_KEY")
    expect(page.get_by_text("Secrets were not recorded")).to_be_visible()


def test_resend_with_changes(page: Page) -> None:
    record(page, "demo/echo")
    go(page, "#/inspector")
    send(page, "/a2a/jsonrpc", "before")
    open_row(page, "SendMessage")
    tab(page, "Resend")
    body = page.get_by_role("textbox", name="Body")
    body.fill(body.input_value().replace("before", "after"))
    page.get_by_role("button", name="Send", exact=True).click()
    answer = page.get_by_role("region", name="New answer")
    expect(answer).to_contain_text("200")
    expect(answer.get_by_role("tree", name="Body of the new answer")).to_contain_text("after")
    answer.get_by_text("Compared with the recorded answer").click()
    expect(answer.get_by_role("table")).to_contain_text("after")
    page.get_by_label("Version of A2A").select_option("0.3")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(answer).to_contain_text("error")


def test_a_visited_agent_shows_both_wires_and_the_waterfall(page: Page, served: Gateway) -> None:
    go(page, "#/agents/visit")
    page.get_by_role("textbox", name="URL").fill(served.agent_url("demo/writer"))
    page.get_by_role("button", name="Open", exact=True).click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("Writer")
    href = preview.get_by_role("link", name="Card").get_attribute("href") or ""
    handle = href.removeprefix("#/agents/")
    record(page, handle, "demo/writer")
    send(page, f"/api/a2a/v1/agents/{handle}", "over two wires", stream=True, version="0.3")
    go(page, "#/inspector")
    expect(rows(page)).to_have_count(3)
    open_row(page, "SendStreamingMessage")
    tab(page, "Both wires")
    expect(page.get_by_text("from A2A 0.3 to A2A 1.0")).to_be_visible()
    difference = page.get_by_role("table").filter(has_text="Forwarded").first
    expect(difference.get_by_role("row").filter(has_text="/method")).to_contain_text(
        "SendStreamingMessage"
    )
    expect(difference.get_by_role("row").filter(has_text="/params/message/kind")).to_have_class(
        "removed"
    )
    expect(page.get_by_text("Event 1 of")).to_be_visible()
    page.get_by_role("link", name="waterfall").click()
    bars = page.get_by_role("grid", name="Waterfall").get_by_role("row")
    # Both exchanges of the visit, that of the writer below, and the turns of their tasks.
    expect(bars.filter(has_text="SendStreamingMessage")).to_have_count(3)
    expect(bars.filter(has_text="turn 1")).to_have_count(2)
    expect(bars.filter(has_text="demo/writer")).to_have_count(1)
    bars.filter(has_text="demo/writer").get_by_role("link").click()
    page.get_by_role("heading", name="SendStreamingMessage").wait_for()


def test_a_fault_is_seen_felt_and_ended(page: Page, watch: Watch) -> None:
    watch.expected.append("ERR_INCOMPLETE_CHUNKED_ENCODING")
    record(page, "demo/writer")
    go(page, "#/agents/demo/writer/operate")
    page.get_by_label("Cut after").fill("2")
    page.get_by_role("button", name="Start the fault").click()
    banner = page.get_by_role("alert").filter(has_text="Fault on demo/writer")
    expect(banner).to_contain_text("streams cut after 2 events")
    expect(banner).to_contain_text(re.compile(r"[01]:\d\d left"))
    assert send(page, WRITER, "cut", stream=True) == "broken off"
    go(page, "#/inspector")
    expect(banner).to_be_visible()
    expect(rows(page)).to_contain_text("fault")
    banner.get_by_role("button", name="End now").click()
    expect(banner).to_have_count(0)
    assert "TASK_STATE_COMPLETED" in send(page, WRITER, "whole", stream=True)


def test_a_session_file_is_saved_and_opened_offline(page: Page, tmp_path: Path) -> None:
    record(page, "demo/echo", "demo/writer")
    go(page, "#/inspector?q=agent:demo/writer")
    send(page, "/a2a/jsonrpc", "not in the file")
    send(page, WRITER, "in the file", stream=True)
    expect(rows(page)).to_have_count(1)
    # The page reads an exchange in sight once more for this verdict, and asks nothing after it.
    expect(rows(page)).to_contain_text("ok")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save").click()
    file = tmp_path / "session.json"
    saved.value.save_as(file)
    content = json.loads(file.read_text())
    assert content["format"] == "trunkline-session.1"
    assert [each["agent"] for each in content["records"]] == ["demo/writer"]
    page.context.route(re.compile("/api/"), lambda route: route.abort())
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Session file").set_input_files(file)
    expect(page.get_by_text("A file, not this gateway:")).to_be_visible()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    open_row(page, "SendStreamingMessage")
    expect(page.get_by_role("grid", name="Events").get_by_role("row").first).to_be_visible()
    expect(page.get_by_role("tab", name="Resend")).to_have_count(0)
    page.get_by_role("link", name="waterfall").click()
    expect(page.get_by_role("grid", name="Waterfall").get_by_role("row")).to_have_count(1)
    # Neither the log nor an exchange was asked for; the stream of news goes on by itself.
    assert [url for url in asked if "/wire" in url or "/tasks" in url or "/checks" in url] == []
    page.context.unroute(re.compile("/api/"))
    page.get_by_role("button", name="Close the file").click()
    expect(rows(page)).to_have_count(2)


def hostile_session() -> dict[str, Any]:
    deep: Any = "bottom"
    for _ in range(500):
        deep = {"x": deep}
    record: dict[str, Any] = {
        name: HOSTILE
        for name in ("agent", "operation", "version", "httpMethod", "peer", "taskId", "contextId")
    }
    record |= {
        "id": HOSTILE,
        "side": "server",
        "at": "not a time",
        "ms": "long",
        "binding": "jsonrpc",
        "url": "javascript:window.hacked=1",
        "status": -5,
        "events": 1e308,
        "parent": HOSTILE,
        "requestHeaders": [[HOSTILE, HOSTILE], "no pair", 5],
        "requestBody": {"text": json.dumps({HOSTILE: HOSTILE, "deep": deep})},
        "responseBody": {"text": HOSTILE},
        "frames": [{"ms": 1, "data": HOSTILE, "event": HOSTILE}, None, 3],
        "findings": [{"rule": HOSTILE, "severity": HOSTILE, "pointer": HOSTILE, "text": HOSTILE}],
    }
    return {
        "format": "trunkline-session.1",
        "exportedAt": HOSTILE,
        "gateway": HOSTILE,
        "__proto__": {"polluted": 1},
        "records": [record, None, 5, "text", {"__proto__": {"polluted": 1}}],
    }


def test_a_hostile_session_file_is_harmless(page: Page, tmp_path: Path) -> None:
    file = tmp_path / f"{'x' * 40}.json"
    for content in ("no json", "[]", '{"format": "trunkline-session.2", "records": []}'):
        file.write_text(content)
        go(page, "#/inspector")
        page.get_by_label("Session file").set_input_files(file)
        expect(page.get_by_text("This is not a session file").last).to_be_visible()
    file.write_text(json.dumps(hostile_session()))
    page.get_by_label("Session file").set_input_files(file)
    expect(rows(page)).to_have_count(2)
    rows(page).first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Request", exact=True)).to_be_visible()
    for name in ("Checks", "As a command"):
        tab(page, name)
    page.get_by_role("link", name="waterfall").click()
    assert page.evaluate("() => [window.hacked, {}.polluted]") == [None, None]
    assert page.locator("#view img, #view script, #view a[href^='javascript']").count() == 0


def test_messages_that_break_a_rule_are_named_with_the_rule(page: Page) -> None:
    record(page, "demo/echo")
    go(page, "#/inspector")
    bad = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": 5}}}
    page.evaluate(_SEND, ["/a2a/jsonrpc", "1.0", bad])
    expect(rows(page)).to_contain_text(re.compile(r"✕ \d"))
    rows(page).get_by_role("link").first.click()
    tab(page, "Checks")
    expect(page.locator(".findings li").first).to_contain_text("A2A 1.0")
    expect(page.locator(".findings")).to_contain_text("/params/message")


def test_a_task_becomes_a_mock_agent_and_a_test(page: Page, tmp_path: Path) -> None:
    record(page, "demo/echo")
    go(page, "#/inspector")
    send(page, "/a2a/jsonrpc", "again and again")
    open_row(page, "SendMessage")
    with page.expect_download() as saved:
        page.get_by_role("button", name="As a pytest").click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert "again and again" in file.read_text()
    page.get_by_role("button", name="As a mock agent").click()
    page.get_by_role("link", name=re.compile("^recording")).click()
    page.get_by_role("heading", name="Recording of demo/echo", exact=True).wait_for()


CARD: dict[str, Any] = {
    "name": "Signed",
    "description": HOSTILE,
    "version": "1",
    "provider": {"organization": HOSTILE, "url": "javascript:window.hacked=1"},
    "documentationUrl": "data:text/html,<script>window.hacked=1</script>",
    "iconUrl": "https://elsewhere.example/icon.png",
    "supportedInterfaces": [{"url": "javascript:window.hacked=1", "protocolBinding": HOSTILE}, 5],
    "capabilities": {"streaming": True, HOSTILE: HOSTILE, "extensions": [{"uri": HOSTILE}, None]},
    "defaultInputModes": "no list",
    "skills": [
        {"id": "a", "name": HOSTILE, "examples": ["Try \u202ethis", 5], "tags": {"no": "list"}},
        None,
        "text",
    ],
    "securitySchemes": {HOSTILE: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}, "x": None},
}
JUDGED = {
    "card": CARD,
    "signatures": [
        {"keyId": "k1", "algorithm": "ES256", "verdict": "valid", "text": "Signed by a known key"},
        {"keyId": HOSTILE, "algorithm": "ES256", "verdict": "unknown_key", "text": HOSTILE},
    ],
    "findings": [
        {
            "rule": "A2A 1.0 §4.4.1",
            "severity": "error",
            "pointer": "/provider/url",
            "text": "is no URL",
        }
    ],
}


def test_a_hostile_card_is_shown_with_signatures_findings_and_changes(page: Page) -> None:
    page.route(
        re.compile("/api/v1/agents/[^/]+/card$"), lambda route: route.fulfill(json=dict(JUDGED))
    )
    go(page, "#/agents/demo/echo")
    expect(page.get_by_text("✓ valid")).to_be_visible()
    expect(page.get_by_text("? unknown key")).to_be_visible()
    expect(page.get_by_text("Skills (3)")).to_be_visible()
    assert page.locator("#view img, #view script").count() == 0
    assert page.locator("#view a[href^='javascript'], #view a[href^='data']").count() == 0
    # The reader sees that the example is written backwards, and gets it as it is.
    page.get_by_role("link", name="U+202E").click()
    expect(page.get_by_role("main").get_by_role("textbox").last).to_have_value("Try \u202ethis")
    page.go_back()
    tab(page, "Checks")
    finding = page.locator(".findings li").first
    expect(finding).to_contain_text("A2A 1.0 §4.4.1")
    finding.get_by_role("button", name="/provider/url").click()
    expect(page.get_by_role("region", name="Place")).to_contain_text("javascript:")
    expect(page.get_by_text("No change since")).to_be_visible()
    CARD["version"] = "2"
    page.reload()
    expect(page.get_by_text("is not the one that this browser saw")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="/version")).to_contain_text('"2"')
    assert page.evaluate("() => window.hacked") is None


def test_the_raw_card_in_both_versions_and_lines_to_call_it(page: Page) -> None:
    go(page, "#/agents/demo/echo/raw")
    expect(page.get_by_role("tree", name="Card for A2A 1.0")).to_contain_text("supportedInterfaces")
    expect(page.get_by_text("ETag", exact=True)).to_be_visible()
    page.get_by_role("button", name="A2A 0.3").click()
    expect(page.get_by_role("tree", name="Card for A2A 0.3")).to_contain_text("preferredTransport")
    tab(page, "Call it")
    for version, operation in (("1.0", "send"), ("0.3", "send"), ("1.0", "stream")):
        page.get_by_role("combobox", name="Version").select_option(version)
        page.get_by_role("combobox", name="Operation").select_option(operation)
        line = page.get_by_label("curl", exact=True).text_content() or ""
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        assert "completed" in done.stdout.lower()


def test_a_hundred_thousand_rows_are_a_few_elements(page: Page) -> None:
    record(page)
    go(page, "#/inspector")
    page.get_by_role("heading", name="Nothing is recorded").wait_for()
    page.evaluate(
        """async () => {
            const { wireLog } = await import("/console/views/inspector/log.js");
            for (let i = 0; i < 100_000; i++) {
                wireLog.take({
                    id: `x${i}`, side: "server", agent: `demo/a${i % 7}`, ms: i % 90, events: 0,
                    at: new Date(1.7e12 + i).toISOString(), operation: "SendMessage", url: "/a",
                    binding: "http", version: "", httpMethod: "POST", peer: "", principal: "",
                    status: i % 100 ? 200 : 500, requestBytes: 10, responseBytes: i, error: "",
                    taskId: `t${i}`, contextId: "", parent: "", fault: "",
                });
            }
            wireLog.tell();
        }"""
    )
    grid = page.get_by_role("grid", name="Exchanges")
    expect(grid).to_have_attribute("aria-rowcount", "100000")
    assert rows(page).count() < 100
    page.get_by_role("searchbox", name="Filter exchanges").fill("status:500 agent:a3")
    expect(grid).to_have_attribute(
        "aria-rowcount", str(sum(i % 7 == 3 for i in range(0, 100_000, 100)))
    )
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("j")
    expect(rows(page).and_(page.locator(".active"))).to_have_attribute("aria-rowindex", "2")


def test_axe_finds_nothing(page: Page, axe: Axe) -> None:
    record(page, "demo/writer")
    send(page, WRITER, "look", stream=True)
    go(page, "#/inspector")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("ok")
    assert axe.in_both_themes(page) == []
    open_row(page, "SendStreamingMessage")
    page.get_by_role("grid", name="Events").get_by_role("row").first.click()
    assert axe.in_both_themes(page) == []
    for name in ("Checks", "As a command", "Resend"):
        tab(page, name)
        assert axe.in_both_themes(page) == []
    page.get_by_role("link", name="waterfall").click()
    page.get_by_role("grid", name="Waterfall").wait_for()
    assert axe.in_both_themes(page) == []
    for place in ("", "/raw", "/checks", "/call", "/operate"):
        go(page, f"#/agents/demo/writer{place}")
        page.get_by_role("heading", name="Writer").wait_for()
        page.locator(".card, .snippet").first.wait_for()
        assert axe.in_both_themes(page) == []
    go(page, "#/agents/visit")
    page.get_by_role("heading", name="Open an agent elsewhere").wait_for()
    assert axe.in_both_themes(page) == []
