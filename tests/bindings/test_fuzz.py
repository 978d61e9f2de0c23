"""Thousands of damaged requests: every one gets a proper answer, and the gateway lives."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from tests.bindings.asgi import Answer, Http
from tests.bindings.clients import ERRORS, Client, checked_details, message
from tests.bindings.fuzz import Fuzzer, good_requests
from tests.bindings.test_bad_input import LEAKS
from tests.bindings.world import World, open_world

JSONRPC_PATHS = {"/a2a/jsonrpc", "/a2a/jsonrpc/"}
OWN_PAGES = {"/healthz", "/readyz", "/metrics", "/version"}
HANDLE_PATH = "/api/a2a/v1/agents/test/scripted"
# Few enough that the list of them stays short.
CASES_PER_WORLD = 250


class Run:
    """One gateway under fire, and what it said that it stored."""

    def __init__(self, world: World, client: Client, seed: str) -> None:
        self.world = world
        self.client = client
        self.fuzzer = Fuzzer(seed)
        self.acknowledged: set[str] = set()
        self.started: dict[str, str] = {}
        self.targets: list[str] = []

    async def fire(self, cases: int) -> None:
        for number in range(cases):
            if number % 25 == 0:
                await self._renew_targets()
            request = self.fuzzer.mutated(self.fuzzer.pick(self.good))
            answer = await self._exchange(request)
            try:
                self._check(request, answer)
            except (AssertionError, ValueError, KeyError, TypeError) as error:
                raise AssertionError(f"case {number}: {request}\n{answer}") from error
            self._note(answer)
        await self._check_tasks()

    async def _renew_targets(self) -> None:
        """Mutations end tasks; a good request shows that the gateway is well."""
        ids = [
            (await self.client.run(message(script)))["id"]
            for script in ("ask which?", "auth who?", "say done")
        ]
        self.acknowledged.update(ids)
        self._collect_turns()
        self.good = good_requests(self.client, [*ids, "made-up"])

    async def _exchange(self, request: Http) -> Answer:
        async with self.client.http.open(request) as response:
            body = b""
            is_stream = response.headers.get("content-type") == "text/event-stream"
            async for chunk in response.chunks():
                body += chunk
                # The stream of a task that waits has no end.
                if is_stream and b"data:" in body:
                    break
            return Answer(status=response.status, headers=response.headers, body=body)

    def _check(self, request: Http, answer: Answer) -> None:
        assert 200 <= answer.status < 500
        sent = repr(request).encode()
        assert not [leak for leak in LEAKS if leak in answer.body and leak not in sent]
        path = unquote(request.path)
        is_json = answer.headers.get("content-type") == "application/json"
        if path in OWN_PAGES or (path == "/" and not is_json):
            return
        if answer.headers.get("content-type") == "text/event-stream":
            assert answer.body.endswith(b"\n\n")
            for frame in answer.body.split(b"\n\n"):
                for line in frame.split(b"\n"):
                    if line.startswith(b"data:"):
                        assert isinstance(json.loads(line[5:]), dict)
            return
        if answer.status == 304:
            assert not answer.body
            return
        assert int(answer.headers["content-length"]) == len(answer.body)
        body = json.loads(answer.body)
        if path in JSONRPC_PATHS or path.removesuffix("/") == HANDLE_PATH:
            self._check_jsonrpc(body, answer)
        elif answer.status != 200:
            self._check_rest_error(body, answer)
        else:
            assert isinstance(body, dict)
            assert "jsonrpc" not in body

    def _check_jsonrpc(self, body: Any, answer: Answer) -> None:
        assert body["jsonrpc"] == "2.0"
        assert isinstance(body["id"], str | int | None)
        if "result" in body:
            assert set(body) == {"jsonrpc", "id", "result"}
            assert answer.status == 200
            return
        assert set(body) == {"jsonrpc", "id", "error"}
        error = body["error"]
        assert set(error) == {"code", "message", "data"}
        code, status, _ = ERRORS[checked_details(error["data"])[0]["reason"]]
        assert error["code"] in (code, -32004)
        assert answer.status in (200, status)

    def _check_rest_error(self, body: Any, answer: Answer) -> None:
        assert set(body) in ({"error"}, {"error", "type", "code", "message"})
        error = body["error"]
        assert set(error) == {"code", "status", "message", "details"}
        _, status, name = ERRORS[checked_details(error["details"])[0]["reason"]]
        assert (answer.status, error["code"], error["status"]) == (status, status, name)

    def _note(self, answer: Answer) -> None:
        """Remember the task of an answer to a message."""
        self._collect_turns()
        text = answer.body.partition(b"data: ")[2] or answer.body
        if not text.startswith(b"{"):
            return
        body = json.loads(text.partition(b"\n")[0])
        body = body.get("result", body)
        if isinstance(body, dict):
            task = body.get("task", body)
            if isinstance(task, dict) and "status" in task and "id" in task:
                self.acknowledged.add(task["id"])

    def _collect_turns(self) -> None:
        # Every task that is stored runs, and the agent knows of which tenant it is.
        for turn in self.world.agent.turns:
            self.started[turn.task_id] = turn.tenant
        self.world.agent.turns.clear()

    async def _check_tasks(self) -> None:
        """What is stored is what was acknowledged, no more and no less."""
        newer = "jsonrpc-1.0"
        stored: set[str] = set()
        for tenant in {*self.started.values(), ""}:
            client = self.world.client(newer, tenant=tenant)
            token: dict[str, str] = {}
            while True:
                client.checks_answers = False
                page = await client.list(pageSize=100, **token)
                stored |= {task["id"] for task in page["tasks"]}
                token = {"pageToken": page["nextPageToken"]}
                if not page["nextPageToken"]:
                    break
        self._collect_turns()
        assert stored == self.acknowledged
        assert set(self.started) == stored


async def run(dialect: str, seed: str, cases: int) -> None:
    for start in range(0, cases, CASES_PER_WORLD):
        async with open_world() as world:
            fire = Run(world, world.client(dialect), f"{dialect} {seed} {start}")
            await fire.fire(min(CASES_PER_WORLD, cases - start))


async def test_damaged_requests_get_proper_answers(dialect: str) -> None:
    await run(dialect, "default", 400)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", ["one", "two", "three"])
async def test_many_damaged_requests_get_proper_answers(dialect: str, seed: str) -> None:
    await run(dialect, seed, 5000)
