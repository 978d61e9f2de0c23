"""Writes the frames of Claude Code 2.1.325 as they were recorded, and keeps sessions as it does.

The message says what to do: see `answer`. Anything else is said back.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

REQUIRED = ["-p", "--input-format", "--output-format", "--verbose", "--include-partial-messages"]
lines: "queue.Queue[dict[str, Any] | None]" = queue.Queue()
interrupted = threading.Event()


def main() -> None:
    if "--version" in sys.argv:
        print("2.1.325 (Claude Code)")
        return
    if missing := [option for option in REQUIRED if option not in sys.argv]:
        sys.exit(f"Error: {missing} missing")
    session = open_session()
    threading.Thread(target=listen, daemon=True).start()
    number = 0
    while (frame := lines.get()) is not None:
        number += 1
        content = frame["message"]["content"]
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        with session.open("a") as file:
            file.write(f"{text}\n")
        said = session.read_text().splitlines()
        emit(session, type="system", subtype="init", cwd=os.getcwd(), tools=["Bash"])
        answer(session, text, said, [block["type"] for block in content])
        interrupted.clear()


def open_session() -> Path:
    folder = Path(os.environ["HOME"]) / "fake-claude"
    folder.mkdir(exist_ok=True)
    if "--resume" in sys.argv:
        session = folder / sys.argv[sys.argv.index("--resume") + 1]
        if not session.exists():
            error = f"No conversation found with session ID: {session.name}"
            emit(
                session,
                type="result",
                subtype="error_during_execution",
                is_error=True,
                errors=[error],
            )
            sys.exit(error)
        return session
    session = folder / sys.argv[sys.argv.index("--session-id") + 1]
    if session.exists():
        sys.exit(f"Error: Session ID {session.name} is already in use.")
    return session


def listen() -> None:
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "control_request":
            interrupted.set()
        else:
            lines.put(frame)
    lines.put(None)


def answer(session: Path, text: str, said: list[str], kinds: list[str]) -> None:
    word, _, rest = text.partition(" ")
    match word:
        case "hang":
            stream(session, "begun")
            if rest == "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            interrupted.wait()
            interrupt(session)
        case "tool":
            use_tool(session)
            stream(session, "Bash gave: hi\n")
            result(session, "Bash gave: hi\n")
        case "two":
            stream(session, "first thoughts", "msg_1")
            stream(session, "the answer", "msg_2")
            result(session, "the answer")
        case "whole":
            message(session, "not streamed")
            result(session, "not streamed")
        case "history":
            stream(session, " | ".join(said))
            result(session, " | ".join(said))
        case "pid":
            stream(session, str(os.getpid()))
            result(session, str(os.getpid()))
        case "kinds":
            stream(session, ",".join(kinds))
            result(session, ",".join(kinds))
        case "garbage":
            print('Warning: this is no JSON\n[1, 2]\n{"type": 5}\n{"broken', flush=True)
            stream(session, "all the same")
            result(session, "all the same")
        case "fail":
            error = "API Error: 400 secret-host:8080 said no"
            message(session, error, is_api_error_message=True)
            result(session, error, is_error=True)
        case "steps":
            emit(session, type="result", subtype="error_max_turns", is_error=True)
        case "exit":
            stream(session, "so far")
            print("boom", file=sys.stderr)
            sys.exit(int(rest))
        case "die":
            stream(session, "so far")
            os.kill(os.getpid(), signal.SIGKILL)
        case "line":
            print("x" * int(rest), flush=True)
        case _:
            stream(session, f"You said {text}")
            result(session, f"You said {text}")


def emit(session: Path, **frame: Any) -> None:
    print(json.dumps({**frame, "session_id": session.name, "uuid": "u"}), flush=True)


def event(session: Path, kind: str, **more: Any) -> None:
    emit(session, type="stream_event", event={"type": kind, **more}, parent_tool_use_id=None)


def stream(session: Path, text: str, message_id: str = "msg_9") -> None:
    event(session, "message_start", message={"id": message_id, "role": "assistant"})
    event(session, "content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in text.split(" "):
        delta = {"type": "text_delta", "text": piece if text.startswith(piece) else f" {piece}"}
        event(session, "content_block_delta", index=0, delta=delta)
    message(session, text)
    event(session, "content_block_stop", index=0)
    event(session, "message_delta", delta={"stop_reason": "end_turn"})
    event(session, "message_stop")


def message(session: Path, text: str, **more: Any) -> None:
    content = [{"type": "text", "text": text}]
    said = {"role": "assistant", "content": content}
    emit(session, type="assistant", message=said, parent_tool_use_id=None, **more)


def use_tool(session: Path) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "echo hi"}}
    event(session, "message_start", message={"id": "msg_3", "role": "assistant"})
    event(session, "content_block_start", index=0, content_block=use | {"input": {}})
    emit(session, type="assistant", message={"role": "assistant", "content": [use]})
    gave = {"tool_use_id": "toolu_1", "type": "tool_result", "content": "hi", "is_error": False}
    emit(session, type="user", message={"role": "user", "content": [gave]})


def interrupt(session: Path) -> None:
    response = {"subtype": "success", "request_id": "stop", "response": {"still_queued": []}}
    print(json.dumps({"type": "control_response", "response": response}), flush=True)
    emit(
        session,
        type="result",
        subtype="error_during_execution",
        is_error=True,
        terminal_reason="aborted_streaming",
    )


def result(session: Path, text: str, *, is_error: bool = False) -> None:
    usage = {"input_tokens": 11, "output_tokens": 3, "service_tier": "standard"}
    emit(
        session,
        type="result",
        subtype="success",
        is_error=is_error,
        result=text,
        usage=usage,
        total_cost_usd=0.5,
    )


if __name__ == "__main__":
    main()
