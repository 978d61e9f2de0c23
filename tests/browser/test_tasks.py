"""Tasks, one task with its timeline and replay, the waiting tasks, and calls."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect
from tests.acceptance.gateway import Gateway, gateway
from tests.browser.conftest import Axe, Scheme, Watch, new_code
from tests.browser.world import CODE, CONFIG

SCRIPTED = "demo/scripted"


def send(served: Gateway, agent: str, text: str, **message: str) -> dict[str, Any]:
    """The task of a message, which the agent has taken but not always answered."""
    parts = [{"text": text}]
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": parts, **message},
            "configuration": {"returnImmediately": "wait " in text or "hang" in text},
        },
    }
    answer = httpx.post(
        served.agent_url(agent), json=body, headers={"A2A-Version": "1.0"}, timeout=30
    )
    task: dict[str, Any] = answer.json()["result"]["task"]
    return task


def rows(page: Page) -> list[str]:
    return page.locator(".task-rows .vrow").all_inner_texts()


class TestList:
    def test_shows_what_the_tasks_say_and_obeys_the_filters_of_the_address(
        self, page: Page, served: Gateway
    ) -> None:
        context = "filters-1"
        send(served, SCRIPTED, "say a green thing", contextId=context)
        send(served, SCRIPTED, "fail a red thing", contextId=context)
        send(served, SCRIPTED, "ask which colour?", contextId=context)
        page.goto(f"/#/tasks?context={context}")
        list_ = page.get_by_role("grid", name="Tasks")
        expect(list_.get_by_role("row")).to_have_count(3)
        page.get_by_role("button", name="failed").click()
        expect(list_.get_by_role("row")).to_have_count(1)
        expect(list_).to_contain_text("a red thing")
        page.get_by_role("button", name="needs input").click()
        expect(list_.get_by_role("row")).to_have_count(2)
        assert "state=INPUT_REQUIRED%2CFAILED" in page.url
        page.reload()
        expect(list_.get_by_role("row")).to_have_count(2)
        expect(page.get_by_role("button", name="failed")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Clear filters").click()
        expect(list_).to_contain_text("a green thing")

    def test_finds_a_text_and_a_whole_id(self, page: Page, served: Gateway, watch: Watch) -> None:
        task = send(served, SCRIPTED, "say heliotrope")
        page.goto("/#/tasks")
        expect(page.locator(".task-rows")).to_contain_text("heliotrope")
        page.keyboard.press("/")
        page.keyboard.type("heliotr")
        expect(page.locator(".task-rows .vrow")).to_have_count(1)
        # The filter for failed tasks does not hide the task of an id.
        page.goto(f"/#/tasks?state=FAILED&context=none&q={task['id']}")
        expect(page.locator(".task-rows .vrow")).to_have_count(1)
        expect(page.locator(".task-rows")).to_contain_text("heliotrope")
        watch.expected.append("404")
        page.goto("/#/tasks?q=no-such-task-0001")
        expect(page.get_by_role("heading", name="No task fits these filters")).to_be_visible()

    def test_follows_changes_and_counts_what_is_new(
        self, page: Page, served: Gateway, tmp_path: Path
    ) -> None:
        gate = tmp_path / "go"
        running = send(served, "demo/writer", f"wait {gate}")
        page.goto("/#/tasks?agent=demo/writer&state=WORKING")
        row = page.locator(".task-rows .vrow")
        expect(row).to_have_count(1)
        page.get_by_role("img", name="Live").wait_for()
        another = tmp_path / "another"
        send(served, "demo/writer", f"wait {another}")
        pill = page.get_by_role("button", name="1 new")
        pill.click()
        expect(row).to_have_count(2)
        # A row that no longer fits the filter goes by itself.
        gate.touch()
        expect(row).to_have_count(1)
        expect(page.locator(f".task-rows a[href='#/tasks/{running['id']}']")).to_have_count(0)
        another.touch()
        expect(page.get_by_role("heading", name="No task fits these filters")).to_be_visible()

    def test_keyboard_alone(self, page: Page, served: Gateway) -> None:
        context = "keys-1"
        first = send(served, SCRIPTED, "say one", contextId=context)
        send(served, SCRIPTED, "say two", contextId=context)
        page.goto(f"/#/tasks?context={context}")
        expect(page.locator(".task-rows .vrow")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(page.get_by_role("row").nth(1)).to_have_class(re.compile("active"))
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"#/tasks/{first['id']}"))

    def test_says_what_loads_while_the_gateway_is_slow(
        self, page: Page, served: Gateway, watch: Watch
    ) -> None:
        """The filter takes input, and the request of the old filter is given up."""
        send(served, SCRIPTED, "say slow", contextId="slow-1")
        held: list[Route] = []

        def hold(route: Route) -> None:
            if "contextId=slow-0" in route.request.url:
                held.append(route)
            else:
                route.continue_()

        page.route("**/api/v1/tasks?**", hold)
        page.goto("/#/tasks?context=slow-0")
        expect(page.get_by_text("Reading tasks…")).to_be_visible()
        page.get_by_label("Context", exact=True).fill("slow-1")
        expect(page.locator(".task-rows .vrow")).to_have_count(1)
        # The page gave the first request up.
        assert [route.request.failure for route in held] == ["net::ERR_ABORTED"]
        watch.expected.append("ERR_ABORTED")


class TestOneTask:
    def test_timeline_events_and_a_link_to_one_of_them(self, page: Page, served: Gateway) -> None:
        task = send(served, SCRIPTED, 'say one; say two; say three; artifact data {"n": 1}')
        page.goto(f"/#/tasks/{task['id']}")
        timeline = page.get_by_role("region", name="Timeline")
        expect(timeline.get_by_role("link", name=re.compile("^working"))).to_be_visible()
        expect(timeline.get_by_role("link", name=re.compile("^Turn 1, completed"))).to_be_visible()
        events = page.get_by_role("grid", name="Events")
        expect(events.get_by_role("row").first).to_contain_text("say one")
        events.get_by_role("row").filter(has_text="two answer").click()
        detail = page.get_by_role("complementary", name=re.compile("^Event"))
        expect(detail).to_contain_text("two")
        url = page.url
        assert re.search(r"\?seq=\d+$", url)
        page.goto("/#/agents")
        page.goto(url)
        expect(detail).to_contain_text("two")
        page.get_by_label("Search the previews").fill("three")
        expect(page.get_by_text(re.compile(r"\d events fit; searched"))).to_be_visible()
        expect(events.get_by_role("row").first).to_contain_text("three")
        expect(events).not_to_contain_text("two answer")
        page.get_by_label("Search the previews").fill("")
        page.get_by_label("Kind").select_option("statusUpdate")
        expect(page.get_by_text("events fit; searched")).to_be_visible()
        expect(events).not_to_contain_text("three answer")

    def test_messages_and_artifacts_are_shown_and_harmless(
        self, page: Page, served: Gateway
    ) -> None:
        evil = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) \u202eabc"
        task = send(served, SCRIPTED, f"artifact text <script>x</script> {evil}")
        picture = send(served, "demo/worker", "look")
        page.goto(f"/#/tasks/{task['id']}?tab=content")
        expect(page.locator(".said.artifact")).to_contain_text("onerror=alert(1)")
        expect(page.locator(".said.artifact")).to_contain_text("⟨U+202E⟩")
        assert page.locator(".said a[href^='javascript']").count() == 0
        assert page.locator(".said img").count() == 0
        page.goto(f"/#/tasks/{picture['id']}?tab=content")
        page.get_by_role("button", name="Preview").click()
        image = page.get_by_role("img", name="dot.png")
        expect(image).to_be_visible()
        assert (image.get_attribute("src") or "").startswith("blob:")

    def test_replay_shows_the_task_as_it_was(self, page: Page, served: Gateway) -> None:
        context = "replay-1"
        task = send(served, "demo/planner", "A trip", contextId=context)
        send(served, "demo/planner", "2", taskId=task["id"], contextId=context)
        page.goto(f"/#/tasks/{task['id']}?tab=replay")
        folded = page.locator(".folded")
        expect(folded).to_have_attribute("data-state", "SUBMITTED")
        expect(folded).to_contain_text("1 message, 0 artifacts")
        last = int(page.get_by_label("Sequence").get_attribute("max") or 0)
        states = ["SUBMITTED"]
        for _ in range(last - 1):
            page.get_by_role("button", name="Step forward").click()
            states.append(folded.get_attribute("data-state") or "")
        assert list(dict.fromkeys(states)) == [
            "SUBMITTED",
            "WORKING",
            "INPUT_REQUIRED",
            "COMPLETED",
        ]
        # At the end it is the task itself, with both messages of the caller.
        expect(folded).to_contain_text("Day 2: explore.")
        folded.get_by_role("button", name="JSON").click()
        folded.get_by_role("button", name="Raw").click()
        replayed = json.loads(page.locator(".folded pre.raw").inner_text())
        real = httpx.get(f"{served.url}/api/v1/tasks/{task['id']}").json()["task"]
        assert replayed["artifacts"] == real["artifacts"]
        assert replayed["history"] == real["history"]
        assert replayed["status"] == real["status"]
        # From the address, from any sequence, and played.
        page.goto(f"/#/tasks/{task['id']}?tab=replay&seq=2")
        page.get_by_role("button", name="×100").click()
        page.get_by_role("button", name="▶ Play").click()
        expect(page.get_by_role("button", name="▶ Play")).to_be_visible()
        expect(folded).to_have_attribute("data-state", "COMPLETED")

    def test_a_running_task_grows_and_can_be_replayed(
        self, page: Page, served: Gateway, tmp_path: Path
    ) -> None:
        gate = tmp_path / "go"
        task = send(served, "demo/writer", f"wait {gate}")
        page.goto(f"/#/tasks/{task['id']}")
        events = page.get_by_role("grid", name="Events")
        expect(events).to_contain_text("waiting")
        page.get_by_role("tab", name="Replay").click()
        page.get_by_role("button", name="×100").click()
        page.get_by_role("button", name="▶ Play").click()
        expect(page.get_by_text("Waiting for the task to go on")).to_be_visible()
        gate.touch()
        expect(page.locator(".folded")).to_have_attribute("data-state", "COMPLETED")
        expect(page.locator(".folded")).to_contain_text("done waiting")
        expect(page).to_have_title(re.compile("completed: task"))

    @pytest.mark.parametrize(
        ("script", "answer"),
        [
            ("hang", "The agent has canceled the task"),
            ("ignore-cancel; wait never", "The agent has canceled the task"),
        ],
    )
    def test_cancel_is_answered_honestly(
        self, page: Page, served: Gateway, script: str, answer: str
    ) -> None:
        task = send(served, SCRIPTED, script)
        page.goto(f"/#/tasks/{task['id']}")
        page.get_by_role("button", name="Cancel the task").click()
        expect(page.get_by_role("status").filter(has_text=answer)).to_be_visible()
        expect(page.locator(".task-head .state")).to_have_text("canceled")

    def test_cancel_that_is_refused_says_so(
        self, page: Page, served: Gateway, tmp_path: Path
    ) -> None:
        gate = tmp_path / "go"
        task = send(served, "demo/writer", f"wait {gate}")

        def refuse(route: Route) -> None:
            if "CancelTask" in (route.request.post_data or ""):
                error = {"code": -32002, "message": "Task cannot be canceled"}
                route.fulfill(json={"jsonrpc": "2.0", "id": 1, "error": error})
            else:
                route.continue_()

        page.route("**/api/a2a/v1/agents/demo/writer", refuse)
        page.goto(f"/#/tasks/{task['id']}")
        page.get_by_role("button", name="Cancel the task").click()
        expect(page.get_by_text("Cancel: Refused: Task cannot be canceled")).to_be_visible()
        gate.touch()

    def test_download_has_the_whole_journal(self, page: Page, served: Gateway) -> None:
        task = send(served, SCRIPTED, "say saved")
        page.goto(f"/#/tasks/{task['id']}")
        with page.expect_download() as saving:
            page.get_by_role("button", name="Download JSON").click()
        assert saving.value.suggested_filename == f"task-{task['id']}.json"
        saved = json.loads(saving.value.path().read_text())
        assert saved["task"]["id"] == task["id"]
        assert [each["seq"] for each in saved["events"]] == [*range(1, len(saved["events"]) + 1)]

    def test_unknown_task(self, page: Page, watch: Watch) -> None:
        watch.expected.append("404")
        page.goto("/#/tasks/nothing-here-1")
        expect(page.get_by_text("There is no task of this id").first).to_be_visible()
        expect(page.get_by_role("link", name="All tasks")).to_be_visible()

    def test_a_401_in_the_middle_keeps_what_is_there(
        self, page: Page, served: Gateway, watch: Watch
    ) -> None:
        """The session ends while a task is open: the page says so, and goes on after a sign-in."""
        task = send(served, SCRIPTED, "say still here")
        page.goto(f"/#/tasks/{task['id']}")
        expect(page.get_by_role("grid", name="Events")).to_contain_text("still here")
        watch.expected.append("401")
        error = {"code": 401, "status": "UNAUTHENTICATED", "message": "Sign in first"}
        refused = "**/api/v1/tasks/*/events**"
        page.route(refused, lambda route: route.fulfill(status=401, json={"error": error}))
        page.get_by_role("tab", name="Replay").click()
        dialog = page.get_by_role("dialog", name="You are signed out")
        expect(dialog).to_be_visible()
        page.unroute(refused)
        another = page.context.new_page()
        another.goto(new_code(served))
        another.get_by_role("heading", name="Agents").wait_for()
        page.reload()
        expect(page.locator(".folded")).to_be_visible()


class TestWaiting:
    def test_answers_a_question_in_place(self, page: Page, served: Gateway) -> None:
        task = send(served, "demo/planner", "A trip to Oslo")
        page.goto("/#/inbox")
        card = page.locator(f"[data-task='{task['id']}']")
        expect(card).to_contain_text("How many days?")
        expect(page).to_have_title(re.compile(r"^\(\d+\) Waiting"))
        waits = {"state": "TASK_STATE_INPUT_REQUIRED,TASK_STATE_AUTH_REQUIRED"}
        before = httpx.get(f"{served.url}/api/v1/tasks", params=waits).json()["total"]
        waiting = page.get_by_role("link", name="Waiting", exact=False)
        expect(waiting).to_have_text(re.compile(rf"Waiting\s*{before} "))
        card.get_by_label("Answer to").fill("2")
        card.get_by_role("button", name="Answer").click()
        expect(card).to_have_count(0)
        expect(waiting).not_to_have_text(re.compile(rf"Waiting\s*{before} "))
        done = httpx.get(f"{served.url}/api/v1/tasks/{task['id']}").json()
        assert done["task"]["history"][-2]["parts"] == [{"text": "2"}]

    def test_longest_waiting_first_and_drafts_are_kept(self, page: Page, served: Gateway) -> None:
        older = send(served, SCRIPTED, "ask the older one")
        newer = send(served, SCRIPTED, "auth the newer one")
        page.goto("/#/inbox")
        cards = page.locator(".waiting-card")
        expect(cards.filter(has_text="the newer one")).to_be_visible()
        ids = cards.evaluate_all("all => all.map(each => each.dataset.task)")
        assert ids.index(older["id"]) < ids.index(newer["id"])
        field = page.locator(f"[data-task='{newer['id']}'] textarea")
        field.fill("half an ans")
        page.reload()
        expect(field).to_have_value("half an ans")
        field.fill("")


class TestCalls:
    def test_tree_of_a_batch(self, page: Page, served: Gateway) -> None:
        task = send(served, "demo/boss", "go")
        page.goto("/#/calls?agent=demo/boss")
        tree = page.get_by_role("treegrid", name="Calls")
        plan = tree.get_by_role("row").filter(has_text="a batch")
        expect(plan).to_have_attribute("aria-expanded", "true")
        expect(tree.locator("[aria-level='2']")).to_have_count(2)
        # By keyboard: left closes a branch, right opens it, Enter shows a call.
        tree.focus()
        page.keyboard.press("Home")
        while "a batch" not in tree.locator(".active").inner_text():
            page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowLeft")
        expect(tree.locator("[aria-level='2']")).to_have_count(0)
        page.keyboard.press("ArrowRight")
        expect(tree.locator("[aria-level='2']")).to_have_count(2)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        detail = page.get_by_role("complementary", name="Call")
        expect(detail).to_contain_text("agent_call_batch")
        expect(page).to_have_url(re.compile("#/calls/[^?]+.agent=demo"))
        page.goto(f"/#/tasks/{task['id']}")
        page.get_by_text("4 calls between agents").click()
        expect(
            page.get_by_role("link", name=re.compile("demo.boss → demo.echo")).first
        ).to_be_visible()


class TestEverywhere:
    def test_accessible_and_narrow(self, page: Page, served: Gateway, axe: Axe) -> None:
        task = send(served, "demo/planner", "A trip")
        send(served, "demo/boss", "go")
        views = [
            "tasks",
            f"tasks/{task['id']}",
            f"tasks/{task['id']}?seq=2",
            f"tasks/{task['id']}?tab=content",
            f"tasks/{task['id']}?tab=replay",
            f"tasks/{task['id']}?tab=json",
            "inbox",
            "calls",
        ]
        schemes: tuple[tuple[Scheme, int], ...] = (("light", 1280), ("dark", 375))
        found = []
        for scheme, width in schemes:
            page.set_viewport_size({"width": width, "height": 812})
            for view in views:
                page.goto(f"/#/{view}")
                page.locator(".vrow, .said, .waiting-card, .json").first.wait_for()
                wide = page.evaluate("document.querySelector('#view').scrollWidth")
                found += [f"{view} {each}" for each in axe.scan(page, scheme)]
                if page.evaluate("document.querySelector('#view').clientWidth") < wide:
                    found.append(f"{view} scrolls sideways at {width}")
        assert not found, "\n".join(found)


def test_goes_on_after_the_gateway_restarts(
    tmp_path: Path, page: Page, watch: Watch, served: Gateway
) -> None:
    """A gateway of its own, which stops while its page is open."""
    watch.expected.append(f"another server: {served.url}")
    (tmp_path / "code.py").write_text(CODE)
    with gateway(tmp_path, CONFIG) as own:
        own.start()
        watch.origin = own.url
        send(own, SCRIPTED, "say before")
        page.goto(new_code(own))
        page.get_by_role("heading", name="Agents").wait_for()
        page.goto(f"{own.url}/#/tasks")
        expect(page.locator(".task-rows .vrow")).to_have_count(1)
        watch.expected += ["ERR_", "Failed to load"]
        port = str(own.port)
        own.stop()
        expect(page.get_by_role("img", name="The gateway does not answer")).to_be_visible()
        # What was there is still there.
        expect(page.locator(".task-rows")).to_contain_text("before")
        own.start("--port", port)
        send(own, SCRIPTED, "say after")
        expect(page.get_by_role("button", name="1 new")).to_be_visible(timeout=30_000)
        expect(page.get_by_role("img", name="Live")).to_be_visible(timeout=30_000)
