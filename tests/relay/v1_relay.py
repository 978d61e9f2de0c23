"""`V1Relay`: a relay of protocol v1, written from the description of its frames and not from our
code. It takes agents on a real socket, and the test makes the requests of its clients."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.relay.v1_tokens import SECRET, claims_of
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

_ids = itertools.count(1)


class V1Relay:
    def __init__(self, *, secret: str = SECRET, timeout_ms: int = 30_000) -> None:
        self.secret = secret
        self.timeout_ms = timeout_ms
        # The sockets of the agents that are attached, by tenant and id.
        self.agents: dict[str, ServerConnection] = {}
        self.cards: dict[str, dict[str, Any]] = {}
        # Every frame that an agent has sent, and the token of every auth frame.
        self.frames: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        # The errors that the next agents get.
        self.refusals: list[str] = []
        # How often something has connected.
        self.connections = 0
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._server: Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    async def open(self) -> None:
        self._server = await serve(self._serve, "127.0.0.1", 0, ping_interval=30)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        try:
            agent = await self._authenticate(socket)
            if agent:
                await self._read(socket, agent)
        except ConnectionClosed:
            return

    async def _authenticate(self, socket: ServerConnection) -> str:
        frame = json.loads(await socket.recv())
        if frame.get("type") != "auth":
            return await self._refuse(socket, "expected auth message")
        if self.refusals:
            return await self._refuse(socket, self.refusals.pop())
        self.tokens.append(frame.get("token", ""))
        claims = claims_of(self.tokens[-1], self.secret)
        if claims is None:
            return await self._refuse(socket, "invalid token")
        if not claims.get("agent_id"):
            return await self._refuse(socket, "token missing required agent_id claim")
        if not claims.get("tenant"):
            return await self._refuse(socket, "missing tenant in token")
        agent = f"{claims['tenant']}/{claims['agent_id']}"
        earlier = self.agents.get(agent)
        self.agents[agent], self.cards[agent] = socket, frame["agent_card"]
        await self._tell(
            socket, type="auth_ok", agent_id=claims["agent_id"], tenant=claims["tenant"]
        )
        if earlier is not None:
            await earlier.close()
        return agent

    async def _refuse(self, socket: ServerConnection, message: str) -> str:
        await self._tell(socket, type="error", message=message)
        await socket.close()
        return ""

    async def _read(self, socket: ServerConnection, agent: str) -> None:
        try:
            async for message in socket:
                frame = json.loads(message)
                self.frames.append(frame)
                if frame["type"] == "ping":
                    await self._tell(socket, type="pong")
                elif frame["type"] == "a2a.response":
                    waiting = self._answers.pop(frame["payload"]["id"], None)
                    if waiting is not None:
                        waiting.set_result(frame["payload"])
        finally:
            if self.agents.get(agent) is socket:
                del self.agents[agent]

    async def _tell(self, socket: ServerConnection, **frame: Any) -> None:
        await socket.send(json.dumps(frame))

    async def tell(self, agent: str, **frame: Any) -> None:
        await self._tell(self.agents[agent], **frame)

    async def call(self, method: str, params: Any, *, agent: str = "acme/helper") -> Any:
        """The payload of the agent's answer."""
        id = f"request-{next(_ids)}"
        self._answers[id] = asyncio.get_running_loop().create_future()
        payload = {"id": id, "method": method, "params": params, "timeout_ms": self.timeout_ms}
        await self.tell(agent, type="a2a.request", payload=payload)
        return await asyncio.wait_for(self._answers[id], self.timeout_ms / 1000 + 5)


@asynccontextmanager
async def v1_relay(**options: Any) -> AsyncIterator[V1Relay]:
    relay = V1Relay(**options)
    await relay.open()
    try:
        yield relay
    finally:
        await relay.close()


def text_message(text: str, **more: Any) -> dict[str, Any]:
    """The parameters of `message/send`, in A2A 0.3."""
    message = {
        "kind": "message",
        "messageId": f"message-{next(_ids)}",
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    }
    return {"message": message | more}
