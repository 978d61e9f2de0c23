"""`V1Agent`: an agent of protocol v1, written from the description of its frames and not from our
code. It dials a relay and answers as it is told."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

_ids = itertools.count(1)
CARD = {
    "name": "Old helper",
    "description": "Speaks protocol v1.",
    "url": "http://localhost:9999/",
    "version": "3.2.1",
    "protocolVersion": "0.3.0",
    "capabilities": {"streaming": False, "x-own": {"a": 1.50}},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"], "x-skill": True}],
    "provider": {"organization": "Acme", "url": "https://acme.example"},
    "x-unknown": [1, 2.0, {"deep": None}],
}


class Refuse(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class V1Agent:
    """Keeps a task for each message, which ends at once; a test may change `send`."""

    def __init__(self, socket: Any) -> None:
        """`socket` is one of the library, or like it."""
        self.socket = socket
        self.tasks: dict[str, dict[str, Any]] = {}
        # The requests in the order in which they came.
        self.requests: list[dict[str, Any]] = []
        self.pongs = 0
        self.errors: list[str] = []
        self.close_code: int | None = None
        # Requests are held until it is set.
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.send: Callable[[dict[str, Any]], Any] = self.run
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            async for message in self.socket:
                frame = json.loads(message)
                if frame["type"] == "a2a.request":
                    self.requests.append(frame["payload"])
                    task = asyncio.get_running_loop().create_task(self._answer(frame["payload"]))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                elif frame["type"] == "pong":
                    self.pongs += 1
                elif frame["type"] == "error":
                    self.errors.append(frame["message"])
        except ConnectionClosed:
            pass
        self.close_code = self.socket.close_code

    async def _answer(self, request: dict[str, Any]) -> None:
        await self.may_answer.wait()
        try:
            answer = {"result": self._do(request["method"], request["params"])}
        except Refuse as refused:
            answer = {"error": refused.error}
        try:
            await self.tell(type="a2a.response", payload={"id": request["id"]} | answer)
        except ConnectionClosed:
            return

    async def tell(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    def _do(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "message/send":
                return self.send(params)
            case "tasks/get":
                return self.task(params["id"])
            case "tasks/list":
                return {"tasks": [*self.tasks.values()]}
            case "tasks/cancel":
                task = self.task(params["id"])
                task["status"] = {"state": "canceled"}
                return task
            case _:
                raise Refuse(-32601, f"unknown method {method}")

    def task(self, id: str) -> dict[str, Any]:
        if id not in self.tasks:
            raise Refuse(-32001, "no such task")
        return self.tasks[id]

    def run(self, params: dict[str, Any], *, state: str = "completed") -> dict[str, Any]:
        """A new task, whose answer repeats the message."""
        message = params["message"]
        text = "".join(part.get("text", "") for part in message["parts"])
        id = f"own-{next(_ids)}"
        task = self.tasks[id] = {
            "kind": "task",
            "id": id,
            "contextId": message.get("contextId") or f"context-{id}",
            "status": {"state": state},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": f"re: {text}"}]}],
        }
        return task

    def drop(self) -> None:
        """Lose the connection, as when a cable is pulled and the kernel notices."""
        self.socket.transport.abort()


class Refused(Exception):
    """The relay has sent an error in place of `auth_ok`, or closed the connection."""


@asynccontextmanager
async def v1_agent(
    port: int, token: str, *, card: Any = CARD, **auth: Any
) -> AsyncIterator[V1Agent]:
    async with connect(f"ws://127.0.0.1:{port}/agent", proxy=None) as socket:
        frame = {"type": "auth", "token": token, "tenant": "ignored", "agent_id": "ignored"}
        await socket.send(json.dumps(frame | {"agent_card": card} | auth))
        try:
            answer = json.loads(await socket.recv())
        except ConnectionClosed as closed:
            raise Refused(str(closed)) from None
        if answer["type"] != "auth_ok":
            await socket.wait_closed()
            raise Refused(answer["message"], socket.close_code)
        agent = V1Agent(socket)
        serving = asyncio.get_running_loop().create_task(agent.serve())
        try:
            yield agent
        finally:
            await socket.close()
            await serving
