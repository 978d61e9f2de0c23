"""An agent that speaks ACP with the messages that were recorded of real ones.

The prompt says what to do: see `answer`. Anything else is said back. Options: `--no-load`,
`--version-2`, `--login`, `--mute`, `--dies`, `--no-mcp`.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
import uuid
from itertools import count
from pathlib import Path
from typing import Any

incoming: "queue.Queue[dict[str, Any]]" = queue.Queue()
cancelled = threading.Event()
# The MCP servers of each session.
servers: dict[str, Any] = {}
numbers = count(0)
FOLDER = Path(os.environ["HOME"]) / "fake-acp"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    threading.Thread(target=listen, daemon=True).start()
    if "--dies" in sys.argv:
        sys.exit("cannot find my token=hush-hush")
    if "--mute" in sys.argv:
        time.sleep(600)
    while True:
        serve(incoming.get())


def listen() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        if frame.get("method") == "session/cancel":
            cancelled.set()
        else:
            incoming.put(frame)
    os._exit(0)


def serve(frame: dict[str, Any]) -> None:
    params = frame["params"]
    match frame["method"]:
        case "initialize":
            able = {
                "loadSession": "--no-load" not in sys.argv,
                "promptCapabilities": {"image": True, "embeddedContext": False},
                "mcpCapabilities": {"http": "--no-mcp" not in sys.argv, "sse": False},
            }
            version = 2 if "--version-2" in sys.argv else params["protocolVersion"]
            reply(frame, {"protocolVersion": version, "agentCapabilities": able})
        case "session/new" if "--login" in sys.argv:
            emit(id=frame["id"], error={"code": -32000, "message": "Authentication required"})
        case "session/new":
            session = str(uuid.uuid4())
            servers[session] = params["mcpServers"]
            (FOLDER / session).touch()
            reply(frame, {"sessionId": session, "modes": {"currentModeId": "default"}})
        case "session/load" if (FOLDER / params["sessionId"]).exists():
            servers[params["sessionId"]] = params["mcpServers"]
            say(params["sessionId"], "what was said before", "msg_0")
            reply(frame, {})
        case "session/set_mode":
            (FOLDER / params["sessionId"]).write_text(f"mode {params['modeId']}\n")
            reply(frame, {})
        case "session/prompt":
            prompt(frame, params["sessionId"], params["prompt"])
        case method:
            error = {"code": -32602, "message": "unknown session", "data": {"method": method}}
            emit(id=frame["id"], error=error)


def prompt(frame: dict[str, Any], session: str, blocks: list[dict[str, Any]]) -> None:
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    file = FOLDER / session
    with file.open("a") as notes:
        notes.write(f"{text}\n")
    cancelled.clear()
    reason = answer(session, text, file.read_text().splitlines(), blocks)
    if reason == "error":
        details = f"secret-host {os.environ.get('KEY')}"
        error = {"code": -32603, "message": "Internal error", "data": {"details": details}}
        emit(id=frame["id"], error=error)
        return
    usage = {"inputTokens": 11, "outputTokens": 3, "totalTokens": 14}
    reply(frame, {"stopReason": reason, "usage": usage})


def answer(session: str, text: str, said: list[str], blocks: list[dict[str, Any]]) -> str:
    word, _, rest = text.partition(" ")
    match word:
        case "hang":
            say(session, "begun")
            if rest == "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            cancelled.wait()
            return "cancelled"
        case "ask":
            return ask(session, rest)
        case "tool":
            tool(session, "toolu_1", "completed")
            say(session, "Bash gave hi")
        case "broken":
            tool(session, "toolu_2", "failed")
        case "plan":
            steps = [{"content": "think", "status": "completed"}, {"content": "act"}]
            update(session, sessionUpdate="plan", entries=steps)
            say(session, "planned")
        case "two":
            say(session, "first thoughts", "msg_1")
            say(session, "the answer", "msg_2")
        case "pieces":
            for piece in rest.split():
                say(session, piece)
        case "history":
            say(session, " | ".join(said))
        case "pid":
            say(session, str(os.getpid()))
        case "servers":
            token = os.environ.get("TRUNKLINE_TOOLS_TOKEN", "")
            # Turned around, because the gateway masks it.
            told = json.dumps(servers[session]).replace(token, token[::-1]) if token else "none"
            say(session, told)
        case "kinds":
            say(session, ",".join(block["type"] for block in blocks))
        case "fs":
            emit(id=next(numbers), method="fs/read_text_file", params={"path": "/etc/passwd"})
            say(session, json.dumps(incoming.get()))
        case "refuse":
            return "refusal"
        case "long":
            say(session, "as much as")
            return "max_tokens"
        case "fail":
            return "error"
        case "garbage":
            print("Loading…\n[1]\n{", flush=True)
            say(session, "all the same")
        case "exit":
            print("boom", file=sys.stderr)
            os._exit(int(rest))
        case "die":
            say(session, "so far")
            os.kill(os.getpid(), signal.SIGKILL)
        case "flood":
            while True:
                say(session, "more and more " * 1000)
        case _:
            say(session, f"You said {text}")
    return "end_turn"


def ask(session: str, what: str) -> str:
    options = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "allow-once", "name": "Yes", "kind": "allow_once"},
        {"optionId": "reject", "name": "No", "kind": "reject_once"},
    ]
    say(session, "may I? ")
    call = {"toolCallId": "toolu_3", "title": what or "touch it", "kind": "execute"}
    params = {"sessionId": session, "toolCall": call, "options": options}
    emit(id=next(numbers), method="session/request_permission", params=params)
    outcome = incoming.get()["result"]["outcome"]
    if outcome["outcome"] == "cancelled":
        cancelled.wait()
        return "cancelled"
    if what == "or stop" and outcome["optionId"] == "reject":
        return "cancelled"
    say(session, f"you chose {outcome['optionId']}")
    return "end_turn"


def tool(session: str, call_id: str, status: str) -> None:
    call = {"toolCallId": call_id, "name": "Bash"}
    update(session, sessionUpdate="tool_call", **call, rawInput={}, title="Terminal")
    more = {"rawInput": {"command": "echo hi"}, "title": "echo hi"}
    update(session, sessionUpdate="tool_call_update", toolCallId=call_id, **more)
    update(
        session,
        sessionUpdate="tool_call_update",
        toolCallId=call_id,
        status=status,
        rawOutput="hi",
    )


def say(session: str, text: str, message_id: str = "") -> None:
    named = {"messageId": message_id} if message_id else {}
    content = {"type": "text", "text": text}
    update(session, sessionUpdate="agent_message_chunk", content=content, **named)


def update(session: str, **what: Any) -> None:
    emit(method="session/update", params={"sessionId": session, "update": what})


def reply(frame: dict[str, Any], result: Any) -> None:
    emit(id=frame["id"], result=result)


def emit(**frame: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0"} | frame), flush=True)


if __name__ == "__main__":
    main()
