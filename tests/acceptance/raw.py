"""Requests as curl makes them, and streams as the bytes they are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from tests.acceptance.gateway import Gateway, http_client


class Stream:
    """A response with server-sent events, one block at a time."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._chunks = response.aiter_raw()
        self._pending = b""

    async def block(self) -> bytes | None:
        """The bytes up to the next empty line, without it; None at the end."""
        while b"\n\n" not in self._pending:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                assert not self._pending, f"the stream ends within a block: {self._pending!r}"
                return None
            self._pending += chunk
        block, _, self._pending = self._pending.partition(b"\n\n")
        return block

    async def blocks(self) -> AsyncIterator[bytes]:
        while (block := await self.block()) is not None:
            yield block

    async def event(self) -> "Event":
        """The next block that is an event and no comment."""
        async for block in self.blocks():
            if not block.startswith(b":"):
                return Event(block)
        raise AssertionError("the stream has ended")

    async def events(self) -> list["Event"]:
        """All that are still to come."""
        return [Event(block) async for block in self.blocks() if not block.startswith(b":")]


class Event:
    def __init__(self, block: bytes) -> None:
        fields = [line.split(b": ", 1) for line in block.split(b"\n")]
        names = [name for name, _ in fields]
        assert len(set(names)) == len(names), f"every field on one line: {block!r}"
        values = {name.decode(): value for name, value in fields}
        self.name = values.get("event", b"message").decode()
        self.id = int(values["id"]) if "id" in values else None
        self.data: dict[str, Any] = json.loads(values["data"])

    @property
    def result(self) -> dict[str, Any]:
        """The StreamResponse, without the envelope of JSON-RPC."""
        result: dict[str, Any] = self.data["result"]
        return result

    @property
    def state(self) -> str:
        """The state that the event tells, if it tells one."""
        told = self.result.get("statusUpdate") or self.result.get("task") or {}
        return str(told.get("status", {}).get("state", ""))


@asynccontextmanager
async def streamed(
    gateway: Gateway,
    method: str,
    params: dict[str, Any],
    *,
    last_event_id: int | None = None,
    agent: str = "",
) -> AsyncIterator[Stream]:
    headers = {"A2A-Version": "1.0"}
    url = gateway.agent_url(agent) if agent else gateway.jsonrpc_url
    if last_event_id is not None:
        headers["Last-Event-ID"] = str(last_event_id)
    async with (
        http_client() as http,
        http.stream("POST", url, json=envelope(method, params), headers=headers) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream", await response.aread()
        yield Stream(response)


async def call(
    gateway: Gateway, method: str, params: dict[str, Any], *, agent: str = ""
) -> dict[str, Any]:
    """The whole JSON-RPC answer."""
    url = gateway.agent_url(agent) if agent else gateway.jsonrpc_url
    async with http_client(headers={"A2A-Version": "1.0"}) as http:
        response = await http.post(url, json=envelope(method, params))
    answer: dict[str, Any] = response.json()
    return answer


async def send(
    gateway: Gateway, text: str, *, wait: bool = True, agent: str = "", **message: Any
) -> dict[str, Any]:
    """The task that a message makes."""
    params = message_params(text, **message) | {"configuration": {"returnImmediately": not wait}}
    answer = await call(gateway, "SendMessage", params, agent=agent)
    task: dict[str, Any] = answer["result"]["task"]
    return task


async def state_of(gateway: Gateway, task_id: str) -> str:
    answer = await call(gateway, "GetTask", {"id": task_id})
    return str(answer["result"]["status"]["state"])


def envelope(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message_params(text: str, **message: Any) -> dict[str, Any]:
    own = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": own | message}
