"""Writes the events of `codex exec --json` 0.166.0 as they were recorded."""

import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any


def main() -> None:
    if "--version" in sys.argv:
        print("codex-cli 0.166.0")
        return
    if sys.argv[1] != "exec" or "--json" not in sys.argv or sys.argv[-1] != "-":
        sys.exit(f"error: unexpected arguments {sys.argv[1:]}")
    folder = Path(os.environ["HOME"]) / "fake-codex"
    folder.mkdir(exist_ok=True)
    if "resume" in sys.argv:
        thread = folder / sys.argv[sys.argv.index("resume") + 1]
        if not thread.exists():
            sys.exit(f"Error: thread/resume failed: no rollout found for thread id {thread.name}")
    else:
        thread = folder / str(uuid.uuid4())
    emit("thread.started", thread_id=thread.name)
    item("completed", type="error", message="Model metadata for `fake-1` not found.")
    emit("turn.started")
    text = sys.stdin.read()
    with thread.open("a") as file:
        file.write(f"{text}\n")
    answer(text, thread.read_text().splitlines())


def answer(text: str, said: list[str]) -> None:
    word, _, rest = text.partition(" ")
    match word:
        case "hang":
            item("started", id="item_1", type="command_execution", command="sleep 600")
            time.sleep(600)
        case "tool":
            use = {
                "id": "item_1",
                "type": "command_execution",
                "command": "/bin/bash -lc 'echo hi'",
            }
            item("started", **use, aggregated_output="", exit_code=None, status="in_progress")
            item("completed", **use, aggregated_output="hi\n", exit_code=0, status="completed")
            say("shell gave hi")
        case "plan":
            item("started", type="todo_list", items=[{"text": "think", "completed": False}])
            say("planned")
        case "two":
            say("first thoughts")
            say("the answer")
        case "history":
            say(" | ".join(said))
        case "garbage":
            print("warning: no JSON\n[]\n{", flush=True)
            say("all the same")
        case "fail":
            emit("error", message="secret-host:8080 said no")
            emit("turn.failed", error={"message": "secret-host:8080 said no"})
            sys.exit(1)
        case "exit":
            print("boom", file=sys.stderr)
            sys.exit(int(rest))
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            say(f"You said {text}")
    usage = {"input_tokens": 9, "cached_input_tokens": 1, "output_tokens": 2}
    emit("turn.completed", usage=usage)


def say(text: str) -> None:
    item("completed", id="item_9", type="agent_message", text=text)


def item(phase: str, **what: Any) -> None:
    emit(f"item.{phase}", item={"id": "item_0"} | what)


def emit(kind: str, **what: Any) -> None:
    print(json.dumps({"type": kind} | what), flush=True)


if __name__ == "__main__":
    main()
