"""What can be called on an open connection."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.acceptance.openclaw.fake.gateway import DRAINING, SPENT, Gateway, Json, Listener, Run

HOST_TOOLS = ["exec", "read", "write", "process", "web_fetch", "sessions_list"]
RESERVED = ("subagent", "cron", "acp")


class Invalid(Exception):
    def __init__(self, message: str, *, code: str = "INVALID_REQUEST", reason: str = "") -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message}
        if reason:
            self.error["details"] = {"reason": reason}


class Methods:
    def __init__(self, gateway: Gateway, listener: Listener, scopes: list[str]) -> None:
        self._gateway = gateway
        self._listener = listener
        self._scopes = scopes

    async def call(
        self, method: str, params: Json, answer: Callable[[bool, Json], None]
    ) -> Json | None:
        """The payload of the answer; None when `answer` was used. Raises Invalid."""
        needed = "operator.questions" if method.startswith("question.") else "operator.read"
        if needed not in self._scopes:
            raise Invalid(f"missing scope: {needed}", code="FORBIDDEN", reason="MISSING_SCOPE")
        match method:
            case "agents.list":
                return {"agents": [{"id": name} for name in self._gateway.agents]}
            case "sessions.messages.subscribe":
                self._listener.keys.add(params["key"])
                return {"subscribed": True, "key": params["key"]}
            case "sessions.messages.unsubscribe":
                self._listener.keys.discard(params["key"])
                return {"subscribed": False, "key": params["key"]}
            case "sessions.create":
                self._gateway.session(params["key"])
                return {"ok": True, "key": params["key"]}
            case "tools.effective":
                return self._tools(params)
            case "agent":
                return self._agent(params, answer)
            case "agent.wait":
                return await self._wait(params)
            case "chat.abort":
                return self._abort(params)
            case "chat.history":
                return self._gateway.history(params["sessionKey"])
            case "question.resolve" if not self._gateway.is_old:
                return self._resolve(params)
            case _:
                raise Invalid(f"unknown method: {method}")

    def _agent(self, params: Json, answer: Callable[[bool, Json], None]) -> Json | None:
        gateway = self._gateway
        known = gateway.runs.get(params["idempotencyKey"])
        if known is not None and known.ended is None:
            return {"runId": known.id, "status": "in_flight", "sessionKey": known.session.key}
        if known is not None and known.ended is not None:
            answer(*known.ended)
            return None
        if gateway.is_draining:
            raise Invalid(DRAINING, code="UNAVAILABLE")
        if gateway.is_spent(params["idempotencyKey"]):
            raise Invalid(SPENT, code="UNAVAILABLE")
        key = params["sessionKey"]
        self._check_key(key)
        attachments = params.get("attachments", ())
        for item in attachments:
            if not item["mimeType"].startswith("image/"):
                raise Invalid(f"UnsupportedAttachmentError: attachment {item['fileName']}")
        run = Run(
            params["idempotencyKey"],
            gateway.session(key),
            params["message"],
            images=len(attachments),
            answer=answer,
        )
        answer(True, {"runId": run.id, "sessionKey": key, "status": "accepted"})
        gateway.submit(run)
        return None

    def _check_key(self, key: str) -> None:
        kind, _, rest = key.partition(":")
        agent, _, name = rest.partition(":")
        if kind != "agent":
            raise Invalid("Multiple agents are configured; use agent:<id>:…")
        # The older release runs whatever it is told: trap 4.
        if agent not in self._gateway.agents and not self._gateway.is_old:
            raise Invalid(f'unknown agent id "{agent}"')
        if name.partition(":")[0] in RESERVED:
            raise Invalid("reserved session key")

    async def _wait(self, params: Json) -> Json:
        run = self._gateway.runs.get(params["runId"])
        timeout: Json = {"runId": params["runId"], "status": "timeout"}
        if run is None:
            return timeout
        try:
            async with asyncio.timeout(params["timeoutMs"] / 1000):
                await run.is_done.wait()
        except TimeoutError:
            return timeout
        return run.waited

    def _abort(self, params: Json) -> Json:
        run = self._gateway.runs.get(params["runId"])
        is_ours = run is not None and run.session.key == params["sessionKey"]
        aborted = run is not None and is_ours and self._gateway.abort(run)
        return {"ok": True, "aborted": aborted, "runIds": [params["runId"]] if aborted else []}

    def _resolve(self, params: Json) -> Json:
        question = self._gateway.questions.get(params["id"])
        if question is None:
            raise Invalid("question not found", reason="QUESTION_NOT_FOUND")
        if question["status"] != "pending":
            raise Invalid("question is already answered", reason="QUESTION_ALREADY_TERMINAL")
        self._gateway.resolve(params["id"], params["answers"])
        return {"status": "answered", "answers": params["answers"]}

    def _tools(self, params: Json) -> Json:
        key = params["sessionKey"]
        if key not in self._gateway.sessions:
            raise Invalid(f'unknown session key "{key}"')
        agent: dict[str, Any] = self._gateway.agents.get(key.split(":")[1], {})
        tools = [{"id": name} for name in agent.get("tools", HOST_TOOLS)]
        return {"groups": [{"id": "core", "source": "core", "tools": tools}] if tools else []}
