"""The tools of programs over HTTP, at a gateway with a hub and at one without."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bindings.asgi import Answer, Asgi, Http
from tests.hub.registry_world import CALLERS, made, team
from tests.routing.lent import TOKEN, lend
from tests.routing.world import until

from trunkline.app.gateway import Gateway, build
from trunkline.config.secret import Secret
from trunkline.engine.agent_calls import CallRefused
from trunkline.hub.audit_reading import AuditReader
from trunkline.hub.tools_api import error_of
from trunkline.model.errors import Conflict
from trunkline.model.principal import ANONYMOUS, Principal
from trunkline.routing.tool_tokens import TOOL_TOKEN
from trunkline.settings import from_document
from trunkline.testing import FakeClock

CODE = """\
from trunkline import agent


@agent
async def editor(turn):
    return "edited"


@agent
async def researcher(turn):
    if turn.text == "ask":
        yield turn.ask("How far?")
    else:
        yield {"output": "found: " + turn.text, "confidence": 0.9}
"""
OPERATOR = CALLERS["operator"]


class ToolWorld:
    def __init__(self, gateway: Gateway, clock: FakeClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.http = Asgi(gateway.application)

    async def lend(self, *tools: str, principal: Principal | None = OPERATOR) -> None:
        main = await self.gateway.runtimes.main_store()
        await lend(main, *tools, principal=principal)

    async def post(
        self,
        body: Any,
        *,
        tool: str = "agent_call",
        token: str = TOKEN,
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {token}"} if token else {}
        given |= {"Content-Type": "application/json"} | (headers or {})
        path = f"/api/v1/tools/{tool}"
        return await self.http.send(Http(method=method, path=path, headers=given, body=data))


def agents(folder: Path) -> dict[str, Any]:
    found = team(folder, CODE, "editor", "researcher")
    found["acme/researcher"]["skills"] = [{"id": "dig", "name": "Dig"}]
    return found


@asynccontextmanager
async def tool_world(folder: Path, *, hub: bool = True, **tables: Any) -> AsyncIterator[ToolWorld]:
    clock = FakeClock()
    tables = {"agents": agents(folder)} | tables
    if hub:
        gateway = made(clock, **tables)
    else:
        document = {"store": {"kind": "memory"}, **tables}
        gateway = build(from_document(document, environment={}), base_url="", clock=clock)
    await gateway.open()
    try:
        yield ToolWorld(gateway, clock)
    finally:
        await gateway.close()


ASK = {"agent": "acme/researcher", "input": "the moon", "wait": True}


@pytest.mark.parametrize("hub", [True, False], ids=["hub", "no-hub"])
async def test_a_program_calls_and_polls(tmp_path: Path, hub: bool) -> None:
    async with tool_world(tmp_path, hub=hub) as world:
        await world.lend(principal=OPERATOR if hub else ANONYMOUS)
        answer = await world.post(ASK)
        assert answer.status == 200
        assert (answer.json()["status"], answer.json()["output"]) == (
            "completed",
            "found: the moon",
        )
        made = (await world.post(ASK | {"wait": False})).json()
        assert made["status"] == "pending"

        async def output() -> Any:
            polled = await world.post({"taskId": made["taskId"]}, tool="agent_poll")
            return polled.json().get("output")

        assert await until(output) == "found: the moon"


# A body or arguments; the status of HTTP; the code or the reason; the field that is at fault.
REFUSED = [
    (b"", 400, "PARSE_ERROR", ""),
    (b"{", 400, "PARSE_ERROR", ""),
    (b"\xff\xfe", 400, "PARSE_ERROR", ""),
    (b"[]", 400, "INVALID_PARAMS", "body"),
    (b'"text"', 400, "INVALID_PARAMS", "body"),
    (b"null", 400, "INVALID_PARAMS", "body"),
    (b'{"agent": 1e999}', 400, "INVALID_PARAMS", "[...]"),
    (b'{"agent": "\\ud800", "input": ""}', 400, "PARSE_ERROR", ""),
    (b"[" * 100_000, 400, "INVALID_REQUEST", ""),
    ({"input": "x"}, 400, "validation_failed", "agent"),
    (ASK | {"agent": "../etc"}, 400, "validation_failed", "agent"),
    (ASK | {"agent": ["acme/researcher"]}, 400, "validation_failed", "agent"),
    (ASK | {"skill": "no such"}, 400, "validation_failed", "skill"),
    (ASK | {"timeoutSeconds": -1}, 400, "validation_failed", "timeoutSeconds"),
    (ASK | {"timeoutSeconds": 0}, 400, "validation_failed", "wait"),
    (ASK | {"timeoutSeconds": 1, "timeout": 5}, 400, "validation_failed", "timeout"),
    (ASK | {"wait": "yes"}, 400, "validation_failed", "wait"),
    (ASK | {"taskId": "\u0000"}, 400, "validation_failed", "taskId"),
    (ASK | {"more": 1}, 400, "validation_failed", "more"),
    (ASK | {"input": "x" * 1_050_000}, 400, "input_validation_failed", "input"),
    (ASK | {"input": "x" * 1_200_000}, 413, "PAYLOAD_TOO_LARGE", ""),
    (ASK | {"returnTo": "agent:editor:a2a:other"}, 403, "return_to_refused", ""),
    (ASK | {"agent": "acme/editor"}, 403, "self_call_blocked", ""),
    (ASK | {"agent": "acme/nobody"}, 404, "not_found", ""),
    (ASK | {"skill": "fly"}, 404, "skill_not_found", ""),
    (ASK | {"taskId": "no-such-task"}, 404, "not_found", ""),
]


async def test_what_is_wrong_is_refused_with_the_field(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend()
        for body, status, code, field in REFUSED:
            answer = await world.post(body)
            assert answer.status == status, (str(body)[:99], answer.body)
            details = answer.json()["error"]["details"]
            assert code in (details[0]["reason"], details[0]["metadata"].get("code")), body
            fields = [each["field"] for each in details[-1].get("fieldViolations", ())]
            assert fields == ([field] if field else []), body
            assert TOKEN not in answer.body.decode()
            assert "a2a:c1" not in answer.body.decode()
            assert len(answer.body) < 2000


POLLS = [
    ({}, 400),
    ({"taskId": "no-such-task"}, 404),
    ({"taskId": "\u0000", "correlationId": "\u0000"}, 400),
    ({"correlationId": "é" * 256}, 400),
    ({"correlationId": "x" * 257}, 400),
    ({"taskId": 5}, 400),
    ({"task": "t"}, 400),
    ({"taskId": "t", "agent": "acme/nobody"}, 400),
]


async def test_a_wrong_poll_is_refused(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend()
        for arguments, status in POLLS:
            answer = await world.post(arguments, tool="agent_poll")
            assert answer.status == status, (arguments, answer.body)


async def test_only_the_token_of_a_turn_is_a_credential(tmp_path: Path) -> None:
    wrong = ("", "operator", TOKEN[:-1] + "0", "tl_key_" + "0" * 40, f"{TOKEN},{TOKEN}")
    async with tool_world(tmp_path) as world:
        await world.lend()
        for token in wrong:
            answer = await world.post(b"x" * 5_000_000, token=token)
            assert answer.status == 401, (token, answer.body)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert token == "" or token not in answer.body.decode()


async def test_the_token_opens_nothing_else(tmp_path: Path) -> None:
    others = [
        ("GET", "/api/v1/agents"),
        ("POST", "/api/v1/tokens"),
        ("GET", "/api/v1/auth/me"),
        ("POST", "/api/a2a/v1/agents/acme/editor"),
    ]
    async with tool_world(tmp_path) as world:
        await world.lend()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        for method, path in others:
            request = Http(method=method, path=path, headers=headers, body=b"{}")
            assert (await world.http.send(request)).status == 401, path


async def test_wrong_requests_get_the_status_of_http(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend("agent_call")
        wrong = await world.post(ASK, method="GET")
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
        assert (await world.post(ASK, tool="rm_rf")).status == 404
        assert (await world.post({"taskId": "t"}, tool="agent_poll")).status == 403
        assert (await world.post(ASK, headers={"Content-Type": "text/plain"})).status == 415


async def test_two_credentials_are_none(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend()
        scope = Http(path="/api/v1/tools/agent_call", body=b"{}").scope()
        given = (b"authorization", f"Bearer {TOKEN}".encode())
        scope["headers"] += [given, given, (b"content-type", b"application/json")]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await world.gateway.application(scope, receive, send)
        assert sent[0]["status"] == 401


async def test_a_token_without_a_principal_may_not_call(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend(principal=None)
        answer = await world.post(ASK)
        assert answer.status == 403
        assert answer.json()["error"]["details"][0]["metadata"]["code"] == "caller_unknown"


async def test_a_refused_call_is_one_row_of_the_audit(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend()
        await world.post(ASK | {"agent": "acme/editor"})
        await world.post(ASK, token=TOKEN[:-1] + "0")
        hub = world.gateway.hub
        assert hub is not None
        await hub.audit.writer.flush()
        lines = [line async for _, line, _ in AuditReader(hub.changes.store).stored()]
        refused = [(line.reason, line.asked_by) for line in lines if line.kind == "refusal"]
        assert refused == [("self_call_blocked", "acme/editor"), ("unauthenticated", "")]
        assert TOKEN not in str(lines)


async def test_a_store_that_fails_is_no_fault_of_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trunkline.model.errors import StoreUnusable

    async with tool_world(tmp_path) as world:
        await world.lend()
        main = await world.gateway.runtimes.main_store()

        async def fails(*_: object) -> None:
            raise StoreUnusable("/var/lib/secret.db: the disk is full")

        monkeypatch.setattr(main, "record", fails)
        answer = await world.post(ASK)
        assert answer.status == 503
        assert "secret.db" not in answer.body.decode()


async def test_nothing_of_a_token_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with tool_world(tmp_path) as world:
        await world.lend()
        await world.post(ASK)
        await world.post(ASK | {"agent": TOKEN})
        await world.post(b"{" + TOKEN.encode())
        main = await world.gateway.runtimes.main_store()
        (record,) = await main.records(TOOL_TOKEN, limit=2)
    secret = Secret(TOKEN).reveal().removeprefix("tl_tool_")
    assert secret not in caplog.text
    assert secret not in str([each.__dict__ for each in caplog.records])
    assert secret.encode() not in record.body


async def test_a_program_has_several_agents_asked_at_once(tmp_path: Path) -> None:
    async with tool_world(tmp_path) as world:
        await world.lend("agent_call_batch")
        calls = [{"agent": "acme/researcher", "input": text} for text in ("the moon", "ask")]
        answer = await world.post({"calls": calls}, tool="agent_call_batch")
        assert answer.status == 200
        assert [each["status"] for each in answer.json()["results"]] == [
            "completed",
            "input_required",
        ]
        calls[1]["agent"] = "no agent"
        refused = await world.post({"calls": calls}, tool="agent_call_batch")
        assert refused.status == 400
        assert "calls[1].agent" in refused.body.decode()


def test_a_session_that_was_ended_is_a_conflict() -> None:
    assert isinstance(error_of(CallRefused("session_ended", "it was ended")), Conflict)
