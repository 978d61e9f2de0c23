"""The sockets of the fake: the WebSocket, `/readyz` and what is below `/v1`."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from tests.acceptance.openclaw.fake.access import Refused, scopes_for
from tests.acceptance.openclaw.fake.gateway import Gateway, Json, Listener, Run, event, now_ms
from tests.acceptance.openclaw.fake.methods import Invalid, Methods

MAX_PAYLOAD = 26_214_400


class Server:
    def __init__(self, gateway: Gateway, *, token: str, refusals: int = 0) -> None:
        self._gateway = gateway
        self._token = token
        # So many connects are refused first, as while it starts.
        self._refusals = refusals
        self._sockets: set[WebSocket] = set()
        # Everything that was asked for, for tests to look at.
        self.asked: list[Json] = []

    def application(self) -> Starlette:
        routes = [
            WebSocketRoute("/", self._socket),
            Route("/readyz", self._ready),
            Route("/_fake/asked", self._tell_asked),
            Route("/v1/models", self._models),
            Route("/v1/chat/completions", self._completions, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def close_all(self) -> None:
        for socket in list(self._sockets):
            await socket.close(1012, "service restart")

    async def _ready(self, _: Request) -> Response:
        return JSONResponse({"ready": True, "failing": []})

    async def _tell_asked(self, _: Request) -> Response:
        return JSONResponse(self.asked)

    async def _socket(self, socket: WebSocket) -> None:
        await socket.accept()
        outgoing: asyncio.Queue[Json] = asyncio.Queue()
        writer = asyncio.create_task(_write(socket, outgoing))
        listener = Listener(outgoing.put_nowait, is_scoped=False, sees_tools=False)
        self._sockets.add(socket)
        try:
            await self._talk(socket, listener)
        finally:
            self._sockets.discard(socket)
            self._gateway.listeners.discard(listener)
            writer.cancel()

    async def _talk(self, socket: WebSocket, listener: Listener) -> None:
        nonce = str(uuid4())
        listener.send(event("connect.challenge", {"nonce": nonce, "ts": now_ms()}))
        methods: Methods | None = None
        calls: set[asyncio.Task[None]] = set()
        while (text := (await socket.receive()).get("text")) is not None:
            frame = json.loads(text)
            self.asked.append({"method": frame["method"], "params": frame["params"]})
            if methods is None:
                methods = await self._connect(socket, listener, frame, nonce)
                if methods is None:
                    return
                continue
            call = asyncio.create_task(_call(methods, listener, frame))
            calls.add(call)
            call.add_done_callback(calls.discard)

    async def _connect(
        self, socket: WebSocket, listener: Listener, frame: Json, nonce: str
    ) -> Methods | None:
        params = frame["params"]
        try:
            if self._refusals:
                self._refusals -= 1
                raise Refused("UNAVAILABLE", reason="startup-sidecars", retryAfterMs=50)
            scopes = scopes_for(params, token=self._token, nonce=nonce)
        except Refused as refused:
            listener.send({"type": "res", "id": frame["id"], "ok": False, "error": refused.error})
            await asyncio.sleep(0)
            await socket.close(refused.close)
            return None
        listener.is_scoped = "session-scoped-events" in params["caps"]
        listener.sees_tools = "tool-events" in params["caps"]
        self._gateway.listeners.add(listener)
        hello = self._hello(scopes, params)
        listener.send({"type": "res", "id": frame["id"], "ok": True, "payload": hello})
        return Methods(self._gateway, listener, scopes)

    def _hello(self, scopes: list[str], params: Json) -> Json:
        gateway = self._gateway
        server: Json = {"version": gateway.version, "connId": str(uuid4())}
        policy: Json = {"maxPayload": MAX_PAYLOAD, "tickIntervalMs": 30_000}
        auth: Json = {"role": "operator", "scopes": scopes}
        if not gateway.is_old:
            server["bootId"] = gateway.boot_id
            policy["attachments"] = {"maxBytes": 19_464_192, "maxImageBytes": 6_291_456}
            auth["method"] = "token"
        if params.get("device"):
            auth["deviceToken"] = "device-token"
        return {
            "type": "hello-ok",
            "protocol": 4,
            "server": server,
            "features": {"methods": ["agent", "agent.wait", "chat.abort"], "events": []},
            "snapshot": {"uptimeMs": gateway.uptime_ms},
            "auth": auth,
            "policy": policy,
        }

    def _unauthorized(self, request: Request) -> Response | None:
        if request.headers.get("Authorization") == f"Bearer {self._token}":
            return None
        problem = {"message": "Unauthorized", "type": "unauthorized"}
        return JSONResponse({"error": problem}, status_code=401)

    async def _models(self, request: Request) -> Response:
        if (refusal := self._unauthorized(request)) is not None:
            return refusal
        names = ["openclaw", *(f"openclaw/{name}" for name in ("default", *self._gateway.agents))]
        models = [{"id": name, "object": "model", "owned_by": "openclaw"} for name in names]
        return JSONResponse({"object": "list", "data": models})

    async def _completions(self, request: Request) -> Response:
        if (refusal := self._unauthorized(request)) is not None:
            return refusal
        body = await request.json()
        if not body.get("messages"):
            problem = {"message": "no user message", "type": "invalid_request_error"}
            return JSONResponse({"error": problem}, status_code=400)
        key = request.headers["x-openclaw-session-key"]
        agent = body["model"].removeprefix("openclaw/")
        # The older release runs whatever it is told, here as well: trap 4.
        if agent not in self._gateway.agents and not self._gateway.is_old:
            problem = {"message": f"Unknown agent '{agent}'.", "type": "invalid_request_error"}
            return JSONResponse({"error": problem}, status_code=400)
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        run = Run(str(uuid4()), self._gateway.session(key), text)
        return StreamingResponse(self._stream(run), media_type="text/event-stream")

    async def _stream(self, run: Run) -> AsyncIterator[bytes]:
        frames: asyncio.Queue[Json] = asyncio.Queue()
        listener = Listener(frames.put_nowait, is_scoped=True, sees_tools=False)
        listener.keys.add(run.session.key)
        self._gateway.listeners.add(listener)
        self._gateway.submit(run)
        try:
            while run.ended is None or not frames.empty():
                payload = (await frames.get())["payload"]
                if payload.get("runId") == run.id:
                    if payload.get("stream") == "assistant":
                        delta = {"content": payload["data"]["delta"]}
                        yield _chunk({"choices": [{"index": 0, "delta": delta}]})
                    if payload.get("state") == "error":
                        # Here the words of the model come through, unlike on the socket.
                        status = run.message.removeprefix("FAIL ")
                        message = f"{status} The script says so."
                        problem = {"message": message, "type": "invalid_request_error"}
                        yield _chunk({"error": problem})
                    if payload.get("state") in ("final", "error", "aborted"):
                        break
            usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
            yield _chunk({"choices": [], "usage": usage})
            yield b"data: [DONE]\n\n"
        finally:
            self._gateway.listeners.discard(listener)
            self._gateway.abort(run)


async def _call(methods: Methods, listener: Listener, frame: Json) -> None:
    def answer(ok: bool, payload: Json) -> None:
        problem = payload.pop("error", None) if not ok else None
        result: Json = {"type": "res", "id": frame["id"], "ok": ok, "payload": payload}
        if problem is not None:
            result["error"] = problem
        listener.send(result)

    try:
        payload = await methods.call(frame["method"], frame["params"], answer)
    except Invalid as invalid:
        listener.send({"type": "res", "id": frame["id"], "ok": False, "error": invalid.error})
    else:
        if payload is not None:
            answer(True, payload)


async def _write(socket: WebSocket, outgoing: "asyncio.Queue[Json]") -> None:
    while True:
        frame = await outgoing.get()
        try:
            await socket.send_text(json.dumps(frame))
        except (WebSocketDisconnect, RuntimeError):
            return


def _chunk(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
