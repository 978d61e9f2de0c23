"""Sessions and runs: FIFO per session, events to whoever subscribed, history on disk."""

import asyncio
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from trunkline.testing.fake_model.script import CallTool, Endless, Fail, Hang, Report, Say, steps_of

RECOVERY = (
    "[System] Your previous turn was interrupted by a gateway restart while OpenClaw was waiting "
    "on tool/model work. The restart did not cancel the user's task."
)
SPENT = "Pending input ownership ended; submit a new turn to continue"
DRAINING = "Gateway is draining; new tasks are not accepted"
MODEL_FAILED = "LLM request failed: provider rejected the request schema or tool payload."

Send = Callable[[dict[str, Any]], None]
Json = dict[str, Any]


class RunFailed(Exception):
    pass


@dataclass(eq=False)
class Run:
    id: str
    session: "Session"
    message: str
    images: int = 0
    # Who gets the second answer, if it is still there.
    answer: Callable[[bool, Json], None] | None = None
    provenance: Json | None = None
    accepted_ms: int = 0
    text: str = ""
    item: int = 1
    seq: int = 0
    is_started: bool = False
    task: "asyncio.Task[None] | None" = None
    # The payload of the second answer, once there is one.
    ended: tuple[bool, Json] | None = None
    waited: Json = field(default_factory=dict)
    is_done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class Session:
    key: str
    messages: list[Json] = field(default_factory=list)
    active: Run | None = None
    queue: deque[Run] = field(default_factory=deque)
    # What waited when it was stopped.
    refused: list[Json] = field(default_factory=list)


@dataclass(eq=False)
class Listener:
    send: Send
    is_scoped: bool
    sees_tools: bool
    keys: set[str] = field(default_factory=set)


class Gateway:
    def __init__(self, *, version: str, agents: Json, state: Path) -> None:
        self.version = version
        self.agents = agents
        self.is_old = version == "2026.5.28"
        self.boot_id = str(uuid4())
        self.started = time.monotonic()
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, Run] = {}
        self.questions: dict[str, Json] = {}
        self.listeners: set[Listener] = set()
        self.is_draining = False
        self._answers: dict[str, asyncio.Future[Json]] = {}
        self._state = state
        self._interrupted: list[tuple[str, Json]] = []
        self._load()

    def is_spent(self, run_id: str) -> bool:
        """Whether the run waited when an earlier process ended."""
        return any(item["runId"] == run_id for _, item in self._interrupted_inputs)

    @property
    def uptime_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)

    def session(self, key: str) -> Session:
        return self.sessions.setdefault(key, Session(key))

    def submit(self, run: Run) -> None:
        run.accepted_ms = now_ms()
        self.runs[run.id] = run
        run.session.queue.append(run)
        self._save(run.session)
        self._next(run.session)

    def abort(self, run: Run) -> bool:
        if run.ended is not None:
            return False
        if run.is_started:
            assert run.task is not None
            run.task.cancel()
            return True
        run.session.queue.remove(run)
        self._aborted(run, {"timeoutPhase": "queue", "providerStarted": False})
        return True

    def resolve(self, question_id: str, answers: Json) -> None:
        self.questions[question_id] |= {"status": "answered", "answers": answers}
        self._answers[question_id].set_result(answers)

    async def recover(self) -> None:
        """What the last process has left: its interrupted turns go on under new ids."""
        await asyncio.sleep(0.3)
        for key, _ in self._interrupted:
            provenance = {"kind": "internal_system", "sourceTool": "main_session_restart_recovery"}
            run = Run(str(uuid4()), self.session(key), RECOVERY, provenance=provenance)
            self.submit(run)

    async def drain(self) -> None:
        self.is_draining = True
        if not self.is_old:
            active = [one.active for one in self.sessions.values() if one.active is not None]
            await asyncio.gather(*(run.is_done.wait() for run in active))
        for listener in self.listeners:
            listener.send(event("shutdown", {"reason": "gateway stopping"}))

    def _next(self, session: Session) -> None:
        while session.active is None and session.queue:
            run = session.queue.popleft()
            if self.is_draining:
                session.refused.append(_pending(run, "interrupted"))
                self._end(run, False, error(DRAINING), {"status": "error", "error": DRAINING})
                continue
            session.active = run
            run.task = asyncio.create_task(self._play(run))

    async def _play(self, run: Run) -> None:
        session = run.session
        try:
            run.is_started = True
            self._tell(run, "lifecycle", {"phase": "start", "startedAt": now_ms()})
            if not self.is_old:
                self._record(session, self._user_message(run))
            await self._model(run)
        except asyncio.CancelledError:
            self._finish(run)
            self._chat(run, "aborted", stopReason="rpc", message=assistant(run.text))
            self._tell(run, "lifecycle", {"phase": "end", "aborted": True, "stopReason": "rpc"})
            self._aborted(run, {})
        except RunFailed as failed:
            self._finish(run)
            reason = str(failed)
            self._tell(run, "lifecycle", {"phase": "error", "error": reason})
            self._chat(run, "error", errorMessage=reason)
            self._end(run, False, error(reason), {"status": "error", "error": reason})
        else:
            self._finish(run, is_answered=True)
            reply = {"disposition": "visible", "text": run.text}
            waited: Json = {"status": "ok", "stopReason": "stop"}
            end: Json = {"phase": "end"}
            if not self.is_old:
                waited["terminalReply"] = end["terminalReply"] = reply
            self._tell(run, "usage", {"outputTokens": len(run.text.split())})
            self._tell(run, "lifecycle", end)
            self._chat(run, "final", stopReason="stop", message=assistant(run.text))
            result = {"payloads": [{"text": run.text, "mediaUrl": None}], "meta": {}}
            payload = {"status": "ok", "summary": "completed", "result": result}
            self._end(run, True, payload, waited)
        self._next(session)

    def _finish(self, run: Run, *, is_answered: bool = False) -> None:
        run.session.active = None
        if is_answered and self.is_old:
            self._record(run.session, self._user_message(run))
        if is_answered:
            message = assistant(run.text) | {"stopReason": "stop"}
            if not self.is_old:
                message["__openclaw"] = {"runId": run.id}
            self._record(run.session, message)

    def _aborted(self, run: Run, more: Json) -> None:
        payload = {"status": "timeout", "summary": "aborted", "stopReason": "rpc", **more}
        self._end(run, True, payload, {"status": "error", "stopReason": "rpc"})

    def _end(self, run: Run, ok: bool, payload: Json, waited: Json) -> None:
        run.ended = ok, {"runId": run.id, **payload}
        run.waited = {"runId": run.id, **waited}
        run.is_done.set()
        self._save(run.session)
        if run.answer is not None:
            run.answer(*run.ended)

    async def _model(self, run: Run) -> None:
        steps = steps_of(run.message)
        results = []
        for step in steps:
            match step:
                case Say():
                    for piece in step.pieces:
                        await asyncio.sleep(step.every_s)
                        self._say(run, piece)
                case CallTool():
                    results.append((step.name, await self._tool(run, step)))
                case Fail() | Report():
                    raise RunFailed(MODEL_FAILED)
                case Hang():
                    await asyncio.Event().wait()
                case Endless():
                    while True:
                        await asyncio.sleep(step.every_s or 0.01)
                        self._say(run, "more ")
                case _:
                    raise RunFailed(f"the fake cannot do {step}")
        if results:
            run.item += 1
            run.text = ""
        for name, result in results:
            self._say(run, f"{name} gave: {result}")

    async def _tool(self, run: Run, step: CallTool) -> str:
        call: Json = {"name": step.name, "toolCallId": f"call_{run.id}"}
        agent = run.session.key.split(":")[1]
        if self.agents.get(agent, {}).get("tools") == []:
            return f"Tool {step.name} not found"
        self._tell(run, "tool", {"phase": "start", **call, "args": step.arguments})
        if step.name == "ask_user" and not self.is_old:
            answers = await self._ask(run, step.arguments["questions"])
            text = json.dumps({"status": "answered", "answers": answers})
        elif step.name == "exec":
            text = step.arguments["command"].removeprefix("echo ")
        else:
            text = f"Tool {step.name} not found"
        result = {"content": [{"type": "text", "text": text}], "details": {"cwd": "/somewhere"}}
        self._tell(run, "tool", {"phase": "result", **call, "isError": False, "result": result})
        return text

    async def _ask(self, run: Run, questions: list[Json]) -> Json:
        question_id = f"ask_{uuid4().hex}"
        items = [
            {key: value for key, value in one.items() if key != "id"}
            | {"questionId": one["id"], "isOther": True}
            for one in questions
        ]
        question = {
            "id": question_id,
            "questions": items,
            "sessionKey": run.session.key,
            "runId": run.id,
            "expiresAtMs": now_ms() + 900_000,
            "status": "pending",
        }
        self.questions[question_id] = question
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[question_id] = answer
        self.broadcast(run.session.key, event("question.requested", question))
        try:
            return await answer
        finally:
            if question["status"] == "pending":
                question["status"] = "cancelled"

    def _say(self, run: Run, piece: str) -> None:
        run.text += piece
        data = {"text": run.text, "delta": piece}
        if not self.is_old:
            data["itemId"] = f"item:{run.item}"
        self._tell(run, "assistant", data)
        self._chat(run, "delta", deltaText=piece, message=assistant(run.text))

    def _tell(self, run: Run, stream: str, data: Json) -> None:
        run.seq += 1
        payload: Json = {"runId": run.id, "sessionKey": run.session.key, "stream": stream}
        payload |= {"data": data, "seq": run.seq, "ts": now_ms()}
        self.broadcast(run.session.key, event("agent", payload), is_tool=stream == "tool")

    def _chat(self, run: Run, state: str, **more: Any) -> None:
        payload = {"runId": run.id, "sessionKey": run.session.key, "state": state, **more}
        self.broadcast(run.session.key, event("chat", payload))

    def broadcast(self, key: str, frame: Json, *, is_tool: bool = False) -> None:
        for listener in self.listeners:
            if (key in listener.keys or not listener.is_scoped) and (
                listener.sees_tools or not is_tool
            ):
                listener.send(frame)

    def _user_message(self, run: Run) -> Json:
        if self.is_old:
            return {"role": "user", "content": [{"type": "text", "text": run.message}]}
        message: Json = {"role": "user", "content": run.message, "idempotencyKey": f"{run.id}:user"}
        if run.provenance is not None:
            message["provenance"] = run.provenance
        return message

    def _record(self, session: Session, message: Json) -> None:
        session.messages.append(message)
        self._save(session)

    def history(self, key: str) -> Json:
        session = self.sessions.get(key) or Session(key)
        found: Json = {"sessionKey": key, "messages": session.messages}
        if self.is_old:
            return found
        pending = [_pending(run, "queued") for run in session.queue]
        pending += [item for one, item in self._interrupted_inputs if one == key]
        found["pendingInputs"] = {"items": pending, "total": len(pending)}
        found["sessionInfo"] = {"hasActiveRun": session.active is not None}
        if session.active is not None:
            found["inFlightRun"] = {"runId": session.active.id, "text": session.active.text}
        return found

    def _save(self, session: Session) -> None:
        """One file per session, so that saving costs the session and not all of them."""
        kept = {
            "key": session.key,
            "messages": session.messages,
            "active": session.active is not None,
            "queue": [
                *session.refused,
                *(_pending(run, "interrupted") for run in session.queue),
            ],
        }
        name = hashlib.sha256(session.key.encode()).hexdigest()
        made = self._state / f"{name}.new"
        made.write_text(json.dumps(kept))
        made.replace(self._state / f"{name}.json")

    def _load(self) -> None:
        self._interrupted_inputs: list[tuple[str, Json]] = []
        for file in self._state.glob("*.json"):
            kept = json.loads(file.read_text())
            key = kept["key"]
            self.sessions[key] = Session(key, messages=kept["messages"])
            if self.is_old:
                continue
            self.sessions[key].refused = kept["queue"]
            self._interrupted_inputs += [(key, item) for item in kept["queue"]]
            if kept["active"]:
                self._interrupted.append((key, kept))


def _pending(run: Run, state: str) -> Json:
    return {"runId": run.id, "state": state, "acceptedAt": run.accepted_ms}


def event(name: str, payload: Json) -> Json:
    return {"type": "event", "event": name, "payload": payload}


def error(message: str) -> Json:
    return {
        "status": "error",
        "summary": message,
        "error": {"code": "UNAVAILABLE", "message": message},
    }


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def now_ms() -> int:
    return time.time_ns() // 1_000_000
