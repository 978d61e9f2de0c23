"""The statements H-06, H-07 and H-09 … H-17 about the wire of seed 003, one test or more for each.

Requests go over a real socket, with the headers and bodies of the seed's samples. The agent does
what a message says, and the clock moves when the test says so.
"""

import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.bindings.world import BASE_URL, HANDLE
from tests.hub.registry_world import hub_world
from tests.hub.wire import CARD, RPC, Hub, envelope, open_hub, question
from tests.sockets.peer import passes

from trunkline.app.cards import hub_card
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.kind import BackendTable
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.model.calls import Refusal
from trunkline.ports.gate import Admission, Attempt, Usage
from trunkline.settings import Settings, StoreSettings
from trunkline.settings.hub import HubSettings
from trunkline.settings.profiles import PRESETS
from trunkline.stores.postgres.store import PostgresStore

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
HALF_AN_HOUR = 30 * 60.0


def failure(task: dict[str, Any]) -> str:
    """The text of a failed task, where H-11 says that it is."""
    assert task["status"]["state"] == "FAILED"
    text = task["status"]["message"]["parts"][0]["text"]
    assert isinstance(text, str)
    return text


def code(answer: dict[str, Any]) -> int:
    assert "result" not in answer
    assert isinstance(answer["error"]["message"], str)
    found = answer["error"]["code"]
    assert isinstance(found, int)
    return found


# H-06: the card.


async def test_h06_the_card_has_the_members_of_the_seed() -> None:
    async with open_hub(name="rust expert", description="answers Rust questions") as hub:
        answer = await hub.http.get(CARD)
    assert answer.json() == {
        "name": "rust expert",
        "description": "answers Rust questions",
        "version": "1",
        "url": f"{BASE_URL}{RPC}",
        "provider": {"organization": "Trunkline", "url": BASE_URL},
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
        },
        "skills": [
            {
                "id": "ask",
                "name": "ask",
                "description": "Send a natural-language question; receive a textual answer.",
            }
        ],
        "securitySchemes": {
            "bearerSession": {
                "type": "http",
                "scheme": "Bearer",
                "bearerFormat": "tl_sess_<32hex>",
                "description": "trunkline session token from /api/v1/auth/oauth/token",
            }
        },
        "security": [{"bearerSession": []}],
    }


@pytest.mark.parametrize(("style", "prefix"), [("clawborrator", "cw"), ("trunkline", "tl")])
def test_h06_the_style_of_the_hub_names_the_token(
    style: Literal["clawborrator", "trunkline"], prefix: str
) -> None:
    made = hub_card(Settings(hub=HubSettings(style=style)), BASE_URL)
    assert made.bearer_format == f"{prefix}_sess_<32hex>"
    assert made.bearer_description == f"{style} session token from /api/v1/auth/oauth/token"
    assert made.needs_credential


async def test_h06_a_client_that_names_a_version_gets_the_card_of_that_version() -> None:
    async with open_hub(name="rust expert") as hub:
        new = (await hub.http.get(CARD, headers={"A2A-Version": "1.0"})).json()
        same = (await hub.http.get(f"{CARD}?format=1.0")).json()
        old = (await hub.http.get(CARD, headers={"A2A-Version": "0.3"})).json()
    assert new == same
    assert {each["protocolVersion"] for each in new["supportedInterfaces"]} == {"1.0", "0.3"}
    assert "securityRequirements" in new
    assert old["protocolVersion"] == "0.3.0"
    assert old["url"] == f"{BASE_URL}{RPC}"


async def test_h06_the_card_needs_no_credential_and_is_never_out_of_date() -> None:
    async with open_hub() as hub:
        answer = await hub.http.get(CARD)
        assert answer.status_code == 200
        assert "no-cache" in answer.headers["cache-control"]
        again = await hub.http.get(CARD, headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
        assert "no-cache" in again.headers["cache-control"]


# H-07: the block of the registry.


async def test_h07_an_agent_of_the_registry_has_the_whole_card_of_the_seed() -> None:
    async with hub_world(hub={"style": "clawborrator"}) as world:
        await world.create(
            owner="MRIIOT",
            slug="rust-expert",
            name="rust expert",
            description="answers Rust questions",
            profile="hub",
        )
        handle = "MRIIOT/rust-expert"
        for _ in range(17):
            task = (await world.send(handle)).json()["result"]
            assert task["status"]["state"] == "COMPLETED"
        card = (await world.card(handle)).json()
    block = card.pop("_clawborrator")
    note = block.pop("isolationNote")
    assert block == {
        "handle": handle,
        "ownerLogin": "MRIIOT",
        "queriesToday": 17,
        "dailyBudget": 1000,
        "online": True,
        "isolated": True,
    }
    assert note.startswith("this agent answers from its own context only")
    assert card == {
        "name": "rust expert",
        "description": "answers Rust questions",
        "version": "1",
        "url": f"https://gateway.example/api/a2a/v1/agents/{handle}",
        "provider": {
            "organization": "clawborrator hub_v1",
            "url": "https://gateway.example",
        },
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
        },
        "skills": [
            {
                "id": "ask",
                "name": "ask",
                "description": "Send a natural-language question; receive a textual answer.",
            }
        ],
        "securitySchemes": {
            "bearerSession": {
                "type": "http",
                "scheme": "Bearer",
                "bearerFormat": "cw_sess_<32hex>",
                "description": "clawborrator session token from /api/v1/auth/oauth/token",
            }
        },
        "security": [{"bearerSession": []}],
    }


# H-09: methods and envelopes.


async def test_h09_the_id_is_echoed_whatever_it_is() -> None:
    async with open_hub() as hub:
        for id in ("client-1", "", 7, -1, None):
            body = envelope("SendMessage", question("hello")) | {"id": id}
            answer = (await hub.post(body)).json()
            assert answer["jsonrpc"] == "2.0"
            assert answer["id"] == id
            assert set(answer) == {"jsonrpc", "id", "result"}


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "1.0", "method": "SendMessage", "params": question("hi"), "id": 1},
        {"method": "SendMessage", "params": question("hi"), "id": 1},
        {"jsonrpc": "2.0", "params": question("hi"), "id": 1},
        {"jsonrpc": "2.0", "method": 7, "params": question("hi"), "id": 1},
        {"jsonrpc": "2.0", "method": "SendMessage", "params": question("hi"), "id": {}},
        {"jsonrpc": "2.0", "method": "SendMessage", "params": question("hi")},
    ],
    ids=["version", "no-version", "no-method", "method", "id", "no-id"],
)
async def test_h09_a_bad_envelope_is_32600(body: dict[str, Any]) -> None:
    async with open_hub() as hub:
        answer = await hub.post(body)
        assert answer.status_code == 200
        assert answer.json()["jsonrpc"] == "2.0"
        assert code(answer.json()) == -32600
        assert not hub.world.agent.turns


async def test_h09_an_unknown_method_is_32601_and_bad_parameters_are_32602() -> None:
    async with open_hub() as hub:
        assert code(await hub.call("ListTasks", {})) == -32601
        assert code(await hub.call("Ask", {})) == -32601
        assert code(await hub.call("SendMessage", {})) == -32602


# H-10: the task of SendMessage.


async def test_h10_the_result_is_a_bare_task() -> None:
    async with open_hub() as hub:
        task = await hub.send("what's a lifetime?")
    assert set(task) == {"id", "contextId", "status", "history"}
    assert re.fullmatch(r"task-[0-9a-f-]{36}", task["id"])
    assert task["contextId"] == "m1"
    assert set(task["status"]) == {"state", "timestamp"}
    assert task["status"]["state"] == "COMPLETED"
    assert TIMESTAMP.fullmatch(task["status"]["timestamp"])
    asked, answered = task["history"]
    assert asked == {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"text": "what's a lifetime?"}],
    }
    assert set(answered) == {"messageId", "role", "parts"}
    assert answered["role"] == "ROLE_AGENT"
    assert answered["parts"] == [{"text": "what's a lifetime?"}]
    assert answered["messageId"] not in ("", "m1")


async def test_h10_the_send_waits_for_the_reply() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.send("wait a; say done"))
        await hub.turns(1)
        await passes(5)
        assert not call.done()
        hub.world.agent.gates.open("a")
        task = await hub.answered(call)
        assert task["history"][-1]["parts"] == [{"text": "done"}]


async def test_h10_a_message_id_that_is_used_again_is_a_new_task() -> None:
    async with open_hub() as hub:
        first, second = await hub.send("one"), await hub.send("two")
        assert first["id"] != second["id"]
        assert first["contextId"] == second["contextId"] == "m1"
        assert (await hub.get(first["id"]))["result"] == first
        assert (await hub.get(second["id"]))["result"] == second


async def test_h10_a_context_of_the_client_is_refused_or_echoed() -> None:
    params = question("hello", contextId="mine")
    async with open_hub() as hub:
        answer = await hub.call("SendMessage", params)
        assert code(answer) == -32602
        assert "message.contextId" in answer["error"]["message"]
    async with open_hub(stateless_context="echo") as hub:
        answer = await hub.call("SendMessage", params)
        assert answer["result"]["contextId"] == "mine"


async def test_h10_callers_and_messages_with_the_same_id_share_nothing() -> None:
    async with open_hub() as hub:
        hers = await hub.send("show context_id", caller="alice")
        his = await hub.send("show context_id", caller="bob")
        again = await hub.send("show session", caller="alice")
        assert len({hers["id"], his["id"], again["id"]}) == 3
        foreign = await hub.get(hers["id"], caller="bob")
        unknown = await hub.get("task-none", caller="bob")
        assert code(foreign) == code(unknown) == -32001
        assert str(foreign).replace(hers["id"], "task-none") == str(unknown)
        # Backends that keep conversations know each task as one of its own.
        turns = hub.world.agent.turns
        assert len({turn.context_id for turn in turns}) == 3
        keys = {turn.session.key for turn in turns if turn.session is not None}
        assert len(keys) == 3
        for turn in turns:
            assert turn.session is not None
            assert await turn.session.transcript() == ()
            await turn.session.keep("note", turn.task_id)
        for turn in turns:
            assert turn.session is not None
            assert await turn.session.recall("note") == turn.task_id


# H-11: failures are answers.


async def test_h11_no_reply_in_60_s() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.send("hang"))
        await hub.turns(1)
        await hub.world.clock.advance(59.0)
        await passes(5)
        assert not call.done()
        await hub.world.clock.advance(2.0)
        task = await hub.answered(call)
        assert failure(task) == "agent did not reply within 60s"
        assert (await hub.get(task["id"]))["result"] == task


async def test_h11_no_reply_in_60_s_of_an_agent_that_ignores_its_stop() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.send("ignore-cancel; wait a; say too late"))
        await hub.turns(1)
        await hub.world.clock.advance(62.0)
        task = await hub.answered(call)
        assert failure(task) == "agent did not reply within 60s"
        # a late reply changes nothing.
        hub.world.agent.gates.open("a")
        await passes(5)
        assert (await hub.get(task["id"]))["result"] == task


async def test_h11_another_caller_is_served() -> None:
    async with open_hub() as hub:
        first = hub.soon(hub.send("wait a; say done"))
        await hub.turns(1)
        task = await hub.send("hello", caller="bob")
        assert failure(task) == "agent is processing a turn for another caller"
        # The same caller is no other one.
        assert (await hub.send("hello"))["status"]["state"] == "COMPLETED"
        hub.world.agent.gates.open("a")
        assert (await hub.answered(first))["status"]["state"] == "COMPLETED"
        assert (await hub.send("hello", caller="bob"))["status"]["state"] == "COMPLETED"


class Spent:
    """A gate whose budget is used up."""

    async def admit(self, attempt: Attempt) -> Admission | Refusal:
        return Refusal("budget_exhausted", "The daily budget is used up.", limit=1000)

    def record(self, attempt: Attempt, refusal: Refusal | None) -> None:
        pass

    def settle(self, attempt: Attempt, usage: Usage) -> None:
        pass


async def test_h11_the_budget_is_used_up() -> None:
    async with open_hub(gate=Spent()) as hub:
        task = await hub.send("hello")
        assert failure(task) == f"agent @{HANDLE} hit its daily budget (1000)"
        assert [message["role"] for message in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]
        # Programs read when to try again.
        assert task["status"]["message"]["metadata"]["reason"] == "budget_exhausted"


NOBODY = "http://127.0.0.1:1"


async def soon(hub: Hub, call: Coroutine[Any, Any, Any]) -> Any:
    """The answer to a call, which must come before 60 s have passed by the clock of the gateway."""
    answer = hub.soon(call)
    for _ in range(50):
        if answer.done():
            break
        await passes(5)
        await hub.world.clock.advance(1.0)
    return await hub.answered(answer)


OFFLINE: dict[str, BackendTable] = {
    "a2a": A2aBackend(url=NOBODY, on_unreachable="fail"),
    "a2a-that-tries-again": A2aBackend(url=NOBODY, on_unreachable="retry"),
    "openclaw": OpenClawBackend(url="ws://127.0.0.1:1"),
    "openclaw-over-http": OpenClawBackend(url=NOBODY, surface="http"),
    "openai": OpenAIBackend(base_url=f"{NOBODY}/v1", model="any"),
    "command": CommandBackend(command=("/nonexistent/agent",)),
    "acp": AcpBackend(command=("/nonexistent/agent",)),
}


@pytest.mark.parametrize("backend", OFFLINE.values(), ids=OFFLINE)
async def test_h11_the_channel_is_offline(backend: BackendTable) -> None:
    async with open_hub(backend=backend) as hub:
        assert failure(await soon(hub, hub.send("hello"))) == "agent channel offline"


async def test_h11_an_agent_that_says_why_it_failed_is_quoted() -> None:
    async with open_hub() as hub:
        assert failure(await hub.send("fail out of ideas")) == "out of ideas"
        assert failure(await hub.send("refuse not my field")) == "not my field"


# H-12 and H-13: streams.


async def test_h12_a_stream_is_two_tasks_and_nothing_else() -> None:
    async with open_hub() as hub:
        first, last = await hub.stream("say one; say two")
    assert set(first) == set(last) == {"task"}
    assert first["task"]["status"]["state"] == "WORKING"
    assert first["task"]["contextId"] == "m1"
    assert last["task"]["status"]["state"] == "COMPLETED"
    assert last["task"]["id"] == first["task"]["id"]
    asked, answered = last["task"]["history"]
    assert asked["role"] == "ROLE_USER"
    assert (answered["role"], answered["parts"]) == ("ROLE_AGENT", [{"text": "onetwo"}])


async def test_h12_the_task_is_there_while_the_agent_works() -> None:
    async with open_hub() as hub:
        async with hub.opened("SendStreamingMessage", question("wait a; say done")) as lines:
            assert '"state":"WORKING"' in await anext(lines)
            await hub.turns(1)
            hub.world.agent.gates.open("a")
            rest = [line async for line in lines if line]
        assert len(rest) == 1
        assert '"state":"COMPLETED"' in rest[0]


async def test_h13_failures_of_streams_are_in_the_same_table() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.stream("hang"))
        await hub.turns(1)
        [busy] = await hub.stream("hello", caller="bob")
        assert failure(busy["task"]) == "agent is processing a turn for another caller"
        await hub.world.clock.advance(62.0)
        first, last = await hub.answered(call)
        assert first["task"]["status"]["state"] == "WORKING"
        assert failure(last["task"]) == "agent did not reply within 60s"
    async with open_hub(gate=Spent()) as hub:
        [spent] = await hub.stream("hello")
        assert failure(spent["task"]) == f"agent @{HANDLE} hit its daily budget (1000)"
    async with open_hub(backend=A2aBackend(url=NOBODY)) as hub:
        *_, last = await soon(hub, hub.stream("hello"))
        assert failure(last["task"]) == "agent channel offline"


async def test_h13_a_stream_that_is_refused_is_an_error() -> None:
    async with open_hub() as hub:
        assert code(await hub.call("SendStreamingMessage", {})) == -32602


# H-14: GetTask, and how long tasks are kept.


@pytest.fixture(params=["memory", "sqlite", "json-file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The options of a gateway with each kind of store."""
    match request.param:
        case "memory":
            return {}
        case "postgres":
            # The server of the tests keeps nothing after a power cut.
            request.getfixturevalue("monkeypatch").setitem(
                PostgresStore.__init__.__kwdefaults__, "allow_unsafe", True
            )
            return {"database": request.getfixturevalue("cleared_postgres_url")}
        case kind:
            return {"database": tmp_path / "tasks", "store_kind": kind}


async def test_h14_a_task_is_found_for_30_min_after_its_end(store: dict[str, Any]) -> None:
    async with open_hub(**store) as hub:
        asked = await hub.send("ask which?")
        assert asked["status"]["state"] == "INPUT_REQUIRED"
        hub.world.clock.jump(600.0)
        ended = await hub.send("hello")
        hub.world.clock.jump(HALF_AN_HOUR - 1)
        assert (await hub.get(ended["id"]))["result"] == ended
        hub.world.clock.jump(2.0)
        answer = await hub.get(ended["id"])
        assert code(answer) == -32001
        assert code(await hub.get("task-none")) == -32001
        # A task that has not ended does not expire.
        assert (await hub.get(asked["id"]))["result"] == asked


@pytest.mark.parametrize("own_store", [True, False], ids=["store=memory", "the-main-store"])
async def test_h14_with_a_store_in_memory_a_restart_forgets_all(
    own_store: bool, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"database": tmp_path / "tasks.db"}
    if own_store:
        options["store"] = StoreSettings(kind="memory")
    async with open_hub(**options) as hub:
        answer = await hub.send("hello")
    async with open_hub(**options) as hub:
        found = await hub.get(answer["id"])
    if own_store:
        assert code(found) == -32001
    else:
        assert found["result"] == answer


async def test_h14_a_task_at_work_is_found_and_followed() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.send("wait a; say done"))
        await hub.turns(1)
        running = hub.world.agent.turns[0].task_id
        assert (await hub.get(running))["result"]["status"]["state"] == "WORKING"
        async with hub.opened("SubscribeToTask", {"id": running}) as lines:
            assert '{"task":{' in (first := await anext(lines))
            assert '"state":"WORKING"' in first
            hub.world.agent.gates.open("a")
            assert ['"state":"COMPLETED"' in line async for line in lines if line] == [True]
        assert (await hub.get(running))["result"] == await hub.answered(call)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_h14_an_answer_of_a_megabyte_is_whole_in_every_form(
    kind: str, tmp_path: Path
) -> None:
    options = {"database": tmp_path / "tasks.db"} if kind == "sqlite" else {}
    async with open_hub(**options) as hub:
        task = await hub.send("stream 1 of 1000000")
        later = (await hub.get(task["id"]))["result"]
        _, streamed = await hub.stream("stream 1 of 1000000")
    for found in (task, later, streamed["task"]):
        assert found["history"][-1]["parts"] == [{"text": "1 ".rjust(1_000_000, ".")}]


# H-15 … H-17.


async def test_h15_cancel_is_an_unknown_method_always() -> None:
    async with open_hub() as hub:
        call = hub.soon(hub.send("wait a; say done"))
        await hub.turns(1)
        running = hub.world.agent.turns[0].task_id
        for params in ({"id": running}, {"id": "task-none"}, {}):
            assert code(await hub.call("CancelTask", params)) == -32601
        stated = {"A2A-Version": "1.0"}
        assert code(await hub.call("CancelTask", {"id": running}, headers=stated)) == -32601
        hub.world.agent.gates.open("a")
        assert (await hub.answered(call))["status"]["state"] == "COMPLETED"


async def test_h16_the_version_decides_about_the_form() -> None:
    async with open_hub() as hub:
        new = await hub.call("SendMessage", question("hi"), headers={"A2A-Version": "1.0"})
        task = new["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "hi"}]
        # The same task in the form of each caller.
        assert (await hub.get(task["id"]))["result"]["status"]["state"] == "COMPLETED"
        parts = [{"kind": "text", "text": "hi"}]
        asked = {"kind": "message", "messageId": "m1", "role": "user", "parts": parts}
        old = (await hub.call("message/send", {"message": asked}))["result"]
        assert (old["kind"], old["status"]["state"]) == ("task", "completed")


async def test_h16_a_stream_of_1_0_is_that_of_1_0() -> None:
    async with open_hub() as hub:
        body = envelope("SendStreamingMessage", question("stream 2"))
        answer = await hub.post(body, headers={"A2A-Version": "1.0"})
        lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
        assert all('"jsonrpc":"2.0"' in line for line in lines)
        assert sum('"task":' in line for line in lines) == 1
        assert any("artifactUpdate" in line for line in lines)


async def test_h16_parts_that_are_not_text_are_ignored() -> None:
    async with open_hub() as hub:
        params = question("say hi")
        params["message"]["parts"] += [
            {"url": "https://example.com/a.png"},
            {"raw": "aGVsbG8=", "filename": "a.txt"},
            {"data": {"a": 1}},
        ]
        answer = (await hub.call("SendMessage", params))["result"]
        assert answer["history"][0]["parts"] == [{"text": "say hi"}]
        params["message"]["parts"] = params["message"]["parts"][1:]
        assert code(await hub.call("SendMessage", params)) == -32602


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("say plain", "plain"),
        ("stream 3", "1 2 3 "),
        ("note thinking; say done", "done"),
        ('parts [{"text":"a"},{"data":{"b":1}},{"url":"https://example.com/c"}]', None),
        ("artifact text report all is well", "all is well"),
        ("artifact file a.txt text/plain bytes", ""),
        ("final", ""),
    ],
)
async def test_h17_the_answer_is_the_last_message(script: str, answer: str | None) -> None:
    """What `askHub` of the seed reads, from the answer, from the task later, and from a stream."""
    async with open_hub() as hub:
        task = await hub.send(script)
        later = (await hub.get(task["id"]))["result"]
        *_, streamed = await hub.stream(script)
    for found in (task, later, streamed["task"]):
        assert found["status"]["state"] == "COMPLETED"
        last = found["history"][-1]
        assert last["role"] == "ROLE_AGENT"
        told = "".join(part["text"] for part in last["parts"])
        assert told == answer if answer is not None else told.startswith("a")


async def test_h18_without_a_credential_a_call_is_refused() -> None:
    async with open_hub() as hub:
        answer = await hub.post(envelope("SendMessage", question("hi")), caller="")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_x01_every_key_of_the_preset_is_what_the_seed_says() -> None:
    assert PRESETS["hub"] == {
        "task_id_prefix": "task-",
        "wire_style": "hub",
        "card_style": "hub",
        "retention_s": HALF_AN_HOUR,
        "context_mode": "stateless",
        "busy": "fail",
        "driver_claim": True,
        "offline": "fail",
        "cancel": "unsupported",
        "cancel_unsupported_code": -32601,
        "cancel_grace_s": 1.0,
        "reply_wait_s": 60.0,
        "on_reply_wait": "fail",
        "task_deadline_s": 60.0,
        "agent_style": "task-generating",
        "files": "ignore",
        "refusal_state": "failed",
        "list_tasks": "hidden",
    }
