"""Hostile texts in every field that an agent, a card or a caller controls: none of them runs, loads
anything, or becomes an element. Many payloads go into each page, so that this takes seconds."""

import json
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from tests.acceptance.gateway import Gateway, gateway
from tests.browser.conftest import Profile, Watch

# `RUN` becomes a call that counts itself.
VECTORS = [
    "<script>RUN</script>",
    "<script src=https://evil.example/x.js></script>",
    "<ScRiPt>RUN</sCrIpT>",
    "<scr<script>ipt>RUN</scr</script>ipt>",
    "<img src=x onerror=RUN>",
    "<img src=https://evil.example/pixel.png>",
    "<img/src/onerror=RUN>",
    '"><img src=x onerror=RUN>',
    "'><svg/onload=RUN>",
    "<svg onload=RUN><circle r=9/></svg>",
    "<svg><script>RUN</script></svg>",
    "<svg><animate onbegin=RUN attributeName=x dur=1s>",
    "<svg><a xlink:href='javascript:RUN'><text y=9>x</text></a></svg>",
    "<math><mtext><table><mglyph><style><img src onerror=RUN></style></mglyph></table></math>",
    "<body onload=RUN>",
    "<iframe src='javascript:RUN'></iframe>",
    "<iframe srcdoc='<script>parent.RUN</script>'></iframe>",
    "<object data='data:text/html,<script>RUN</script>'></object>",
    "<embed src='javascript:RUN'>",
    "<details open ontoggle=RUN>x</details>",
    "<video><source onerror=RUN></video>",
    "<audio src=x onerror=RUN></audio>",
    "<input autofocus onfocus=RUN>",
    "<form action='javascript:RUN'><button>go</button></form>",
    "<a href='javascript:RUN'>x</a>",
    "<base href='https://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<style>@import 'https://evil.example/x.css'; body{background:url(https://evil.example/)}</style>",
    "<div style='background:url(https://evil.example/x.png)'>x</div>",
    "<template><script>RUN</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=RUN>'>",
    "<!--><img src=x onerror=RUN>-->",
    "<![CDATA[><img src=x onerror=RUN>]]>",
    "</title></textarea></style></script><script>RUN</script>",
    "javascript:RUN",
    "JaVaScRiPt:RUN",
    "java\tscript:RUN",
    " \u0001javascript:RUN",
    "javascript&colon;RUN",
    "&#106;avascript:RUN",
    "javascript://%0aRUN",
    "vbscript:RUN",
    "data:text/html,<script>RUN</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "blob:https://evil.example/1",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "${RUN}",
    "{{constructor.constructor('RUN')()}}",
    "`;RUN;`",
    "';RUN;'",
    "\u202egnp.exe\u202c",
    "\u2066\u2067\u200b\u200f\ufeffRUN",
    "\u0000\u0007\u001b[31mRUN\u001b]0;x\u0007",
    "../../../../etc/passwd",
    "C:\\Windows\\..\\<b>x",
    "%3Cscript%3ERUN%3C/script%3E",
    "\u2028\u2029RUN",
    "__proto__",
    "constructor",
]

MARKDOWN = [
    "{}",
    "[x]({})",
    "[x](<{}>)",
    '[x](https://a.example "{}")',
    "![x]({})",
    "![{}](https://evil.example/i.png)",
    "<{}>",
    "[x][r{n}]\n\n[r{n}]: {}",
    "| {} |\n|---|\n| {} |",
    "# {}",
    "- [ ] {}",
    "> {}",
    "`{}`",
    "```{}\n{}\n```",
    "**{}** _{}_ ~~{}~~",
]


def payloads() -> list[str]:
    """The vectors as they stand, and each in one of the places of Markdown."""
    found = []
    for number, vector in enumerate(VECTORS):
        run = f"window.__xss({number})"
        found.append(vector.replace("RUN", run))
        for step in range(3):
            pattern = MARKDOWN[(number * 3 + step) % len(MARKDOWN)]
            text = pattern.replace("{n}", f"{number}.{step}")
            found.append(text.replace("{}", vector.replace("RUN", run)))
    return found


PAYLOADS = payloads()

CONFIG = """
[console]
visits = "any"

[agents."demo/evil"]
backend = { kind = "python", target = "code.py:evil" }
input_modes = ["*/*"]

[agents."demo/asker"]
backend = { kind = "python", target = "code.py:asker" }
input_modes = ["*/*"]
"""

CODE = '''
from trunkline import agent


@agent
async def evil(turn):
    """Says each payload in each place."""
    for number, text in enumerate(turn.data[0]["payloads"]):
        plain = text.replace(chr(0), "") or "x"
        yield text + "\\n\\n"
        yield turn.note(text)
        call = turn.tool(plain, {text: text, "list": [text]})
        yield call
        yield call.result({"found": text}, is_error=number % 2 == 0)
        yield turn.artifact(name=text, description=text, text=text, metadata={"said": text})
        yield turn.artifact(name=text, data={text: {text: text}})
        for kind in ("image/svg+xml", "text/html", "image/png", "application/octet-stream"):
            yield turn.artifact(raw=text.encode(), media_type=kind, filename=text)
        yield turn.artifact(name=text, url="https://evil.example/" + plain, media_type="text/html")
        yield turn.stage()


@agent
async def asker(turn):
    if turn.asked is None:
        texts = turn.data[0]["payloads"]
        fields = {text: {"type": "string", "title": text, "description": text, "default": text,
                         "enum": [text, text]} for text in texts[::2]}
        fields |= {text: {"type": "string", "title": text, "default": text} for text in texts[1::2]}
        schema = {"type": "object", "title": texts[0], "properties": fields}
        choices = [{"label": text, "value": text, "description": text} for text in texts]
        data = {"schema": schema} if turn.data[0].get("form") else {"choices": choices}
        return turn.ask("\\n\\n".join(texts), data)
    return turn.fail(turn.text)
'''

HOOKS = """
window.__ran = [];
window.__xss = (number) => { window.__ran.push(number); };
for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = () => window.__xss(name);
window.__csp = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.__csp.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""

# Elements and attributes that the page itself never makes.
STRANGE = """() => {
  const found = [];
  const own = (url) => !url || url.startsWith("/console/") || url.startsWith("blob:");
  for (const element of document.querySelectorAll("*")) {
    const name = element.localName;
    if (element.closest("svg.icon")) continue;
    const foreign = ["iframe", "object", "embed", "base", "math", "video", "audio", "template"];
    if (foreign.includes(name)
        || element.namespaceURI !== "http://www.w3.org/1999/xhtml") found.push(name);
    const loaded = element.getAttribute("src") ?? element.getAttribute("href");
    if (["script", "img", "link", "source"].includes(name) && !own(loaded))
      found.push(element.outerHTML);
    if (name === "style" || (name === "meta" && element.httpEquiv)) found.push(element.outerHTML);
    for (const { name: attribute, value } of element.attributes) {
      const isStrange = /^on/i.test(attribute)
        || ["srcdoc", "formaction", "action", "xlink:href"].includes(attribute)
        || (attribute === "href" && !/^(https?:|mailto:|#|\\/)/.test(value))
        || (attribute === "style" && /url|expression/i.test(value));
      if (isStrange) found.push(`${name} ${attribute}=${value}`);
    }
  }
  return found.slice(0, 10);
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "code.py").write_text(CODE)
    with gateway(folder, CONFIG) as running:
        yield running.start()


@pytest.fixture
def page(context: BrowserContext, watch: Watch, profile: Profile, served: Gateway) -> Page:
    opened = context.new_page()
    opened.add_init_script(HOOKS)
    opened.on("dialog", lambda dialog: watch.faults.append(f"dialog: {dialog.message}"))
    opened.on("popup", lambda popup: watch.faults.append(f"popup: {popup.url}"))
    opened.on("framenavigated", lambda frame: check_place(frame.url, served, watch))
    profile.sign_in(opened)
    return opened


def check_place(url: str, served: Gateway, watch: Watch) -> None:
    if not url.startswith(served.url):
        watch.faults.append(f"the page went to {url}")


def nothing_ran(page: Page) -> None:
    # Everything that opens is opened, and everything is in reach of the pointer and the focus.
    page.evaluate(
        """() => { for (const each of document.querySelectorAll("#view details")) each.open = true;
          for (const each of document.querySelectorAll("#view a, #view button, #view input")) {
            each.focus(); each.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
          }
          return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }"""
    )
    assert page.evaluate("() => window.__ran") == []
    assert page.evaluate("() => window.__csp") == []
    assert page.evaluate(STRANGE) == []


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) >= 200


SEND = """async ([slug, data]) => {
  const { conversation, newConversation } = await import("/console/views/chat/store.js");
  const talk = newConversation(`demo/${slug}`);
  await talk.send([{ text: data.payloads.join("\\n\\n") }, { data }]);
  await new Promise((done) => requestAnimationFrame(done));
  return talk.contextId;
}"""


@pytest.mark.parametrize("part", range(4))
def test_chat(page: Page, served: Gateway, part: int) -> None:
    mine = PAYLOADS[part::4]
    page.goto(f"{served.url}/#/chat/demo/evil")
    page.get_by_role("textbox", name="Message").wait_for()
    page.evaluate(SEND, ["evil", {"payloads": mine}])
    log = page.locator(".log")
    expect(log.locator(".task-end .state")).to_have_text("completed", timeout=30_000)
    while page.get_by_role("button", name="Show earlier messages").count():
        page.get_by_role("button", name="Show earlier messages").click()
    # The last parts of a long log were drawn, so the first ones are here now too.
    expect(log.locator(".mine")).to_have_count(1)
    nothing_ran(page)
    for link in page.locator(".file a").all()[:20]:
        assert (link.get_attribute("href") or "").startswith("https://evil.example/")
    names = page.locator(".file-name").all_inner_texts()
    assert names
    assert not any("/" in name or "\\" in name or "\u202e" in name for name in names)
    # A reload shows the same, read from the gateway.
    page.reload()
    expect(log.locator(".task-end .state")).to_have_text("completed")
    nothing_ran(page)


@pytest.mark.parametrize("form", [False, True], ids=["options", "form"])
def test_questions(page: Page, served: Gateway, form: bool) -> None:
    page.goto(f"{served.url}/#/chat/demo/asker")
    page.get_by_role("textbox", name="Message").wait_for()
    page.evaluate(SEND, ["asker", {"payloads": VECTORS[:40], "form": form}])
    question = page.locator(".question.open")
    question.wait_for()
    nothing_ran(page)
    question.get_by_role("button", name="Answer" if form else "window.__xss").first.or_(
        question.locator(".options button").first
    ).first.click()
    expect(page.locator(".task-end .state")).to_have_text("failed")
    nothing_ran(page)


def with_payloads(value: Any, payload: str, kept: frozenset[str]) -> Any:
    """The JSON value with the payload in place of its texts, but for those members."""
    if isinstance(value, dict):
        return {
            name: each if name in kept else with_payloads(each, payload, kept)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [with_payloads(each, payload, kept) for each in value]
    return payload if isinstance(value, str) else value


def spoil(page: Page, path: str, change: Callable[[Any], Any]) -> None:
    """Change the answers of the gateway below this path, as a hostile gateway upstream would."""

    def answer(route: Route) -> None:
        response = route.fetch()
        if "json" not in response.headers.get("content-type", ""):
            route.fulfill(response=response)
            return
        route.fulfill(response=response, body=json.dumps(change(response.json())))

    page.route(path, answer)


# Members that decide what is requested next; they are checked by the page's own rules elsewhere.
KEPT = frozenset({"cardPath", "jsonrpcPath", "restPath", "nextPageToken", "handle", "versions"})


def load(page: Page, place: str) -> None:
    """Open the page anew at this place: with the same address before the # it would only move."""
    page.goto(f"/?{secrets.token_hex(4)}{place}")


def settle(page: Page, title: str) -> None:
    """Wait until the view with this title has read everything, and look for what it must not do."""
    page.locator(title).wait_for()
    expect(page.locator("#view .loading")).to_have_count(0)
    nothing_ran(page)


def test_lists_cards_and_tasks(page: Page, watch: Watch, served: Gateway) -> None:
    # Of what the spoiled ids lead to.
    watch.expected += ["status of 404", "status of 400"]
    page.evaluate(SEND, ["asker", {"payloads": PAYLOADS[:8]}])
    page.evaluate(SEND, ["evil", {"payloads": PAYLOADS[:8]}])
    task = page.evaluate(
        "async () => (await (await import('/console/lib/api.js')).api('/tasks')).items[0]"
    )
    queue = list(PAYLOADS)

    def many(answer: Any) -> Any:
        if not answer["items"]:
            return answer
        first = answer["items"][0]
        items = [with_payloads(first, text, KEPT) for text in queue]
        for number, item in enumerate(items):
            item["id"] = f"{item.get('id')} {number}"
            if number % 2 and "handle" in item:
                item["handle"] = f"{queue[number]}/{queue[number]}"
        return {**answer, "items": items}

    spoil(page, "**/api/v1/agents?*", many)
    spoil(page, "**/api/v1/agents", many)
    spoil(page, "**/api/v1/tasks?*", many)
    for place in ("#/agents", "#/chat", "#/chat/compare", "#/tasks", "#/inbox"):
        load(page, place)
        expect(page.locator("#view").get_by_text("__xss").first).to_be_attached()
        nothing_ran(page)
    for text in PAYLOADS[::12]:
        page.unroute_all()
        spoil(page, "**/agent-card.json", partial(with_payloads, payload=text, kept=KEPT))
        agent = partial(with_payloads, payload=text, kept=KEPT | {"id"})
        spoil(page, "**/api/v1/agents/**", agent)
        spoil(page, "**/api/v1/tasks/**", partial(with_payloads, payload=text, kept=KEPT))
        # A page that was just loaded has kept nothing of the answers before.
        load(page, f"#/tasks/{task['id']}")
        settle(page, ".task-head h1")
        for place, title in (("agents", ".agent-page h1"), ("chat", ".talk-head h1")):
            page.evaluate("(hash) => { location.hash = hash; }", f"#/{place}/demo/evil")
            settle(page, title)


RECORD = """async () => {
  const { api, request } = await import("/console/lib/api.js");
  for (const { id } of (await api("/agents")).items)
    await api(`/wire/agents/${id}`, { method: "PUT", body: { on: true } });
}"""
EXCHANGES = """async () => {
  const { api } = await import("/console/lib/api.js");
  return (await api("/wire?limit=500")).items.filter((each) => each.operation.startsWith("Send"));
}"""
CALL = {
    **dict.fromkeys(("agent", "session", "principal", "tenant", "callee", "skill", "tool"), "x"),
    **dict.fromkeys(("status", "taskId", "callerTaskId", "parent", "createdAt", "endedAt"), "x"),
    "depth": 1,
    "timeoutMs": 1000,
}
# Members by which the inspector finds what belongs together, and numbers.
WIRE_KEPT = KEPT | {"id", "at", "side", "binding", "parent", "taskId", "contextId", "nextAfter"}


def test_the_wire_calls_and_the_hub(page: Page, watch: Watch, served: Gateway) -> None:
    watch.expected += ["status of 404", "status of 400"]
    page.evaluate(RECORD)
    page.evaluate(SEND, ["evil", {"payloads": PAYLOADS[:8]}])
    exchange = page.evaluate(EXCHANGES)[-1]

    def many(answer: Any) -> Any:
        first = (answer["items"] or [CALL])[0]
        items = [with_payloads(first, text, WIRE_KEPT) for text in PAYLOADS]
        return {**answer, "items": [{**each, "id": f"i{n}"} for n, each in enumerate(items)]}

    for lists, place in (
        ("**/api/v1/wire?*", "#/inspector"),
        ("**/api/v1/wire?*", "#/inspector?view=waterfall"),
        ("**/api/v1/calls?*", "#/calls"),
        ("**/api/v1/sessions?*", "#/hub/sessions"),
        ("**/api/v1/nodes", "#/hub/nodes"),
    ):
        page.unroute_all()
        spoil(page, lists, many)
        load(page, place)
        page.locator("#view h1:visible").first.wait_for()
        expect(page.locator("#view .loading")).to_have_count(0)
        nothing_ran(page)
    for number, text in enumerate(PAYLOADS[::16]):
        page.unroute_all()
        spoil(page, "**/api/v1/wire/*", partial(with_payloads, payload=text, kept=WIRE_KEPT))
        spoil(page, "**/api/v1/gateway", partial(with_payloads, payload=text, kept=KEPT))
        tab = ("exchange", "checks", "commands", "resend")[number % 4]
        load(page, f"#/inspector/{exchange['id']}?tab={tab}")
        page.locator("#view h1:visible").first.wait_for()
        nothing_ran(page)


def test_addresses(page: Page, watch: Watch, served: Gateway) -> None:
    watch.expected += ["404", "400"]
    for text in VECTORS:
        value = quote(text.replace("RUN", "window.__xss('address')"), safe="")
        for place in (
            f"chat/{value}/{value}",
            f"chat/demo/evil/{value}",
            f"agents?q={value}",
            value,
        ):
            page.evaluate("(hash) => { location.hash = hash; }", f"#/{place}")
    page.locator("#view h1").first.wait_for()
    nothing_ran(page)
