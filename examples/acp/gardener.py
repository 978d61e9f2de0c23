"""A small agent that speaks ACP: one JSON-RPC message per line, on standard input and output."""

import json
import sys
from typing import Any


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                answer(request, {"protocolVersion": 1, "agentCapabilities": {}})
            case "session/new":
                answer(request, {"sessionId": "garden"})
            case "session/prompt":
                answer(request, {"stopReason": garden(request["params"]["prompt"][0]["text"])})
            case _:
                pass


def garden(text: str) -> str:
    say("Let me see. ")
    if "water" not in text:
        say("All plants are well.")
        return "end_turn"
    tool = {"toolCallId": "1", "title": "open the tap"}
    update(sessionUpdate="tool_call", **tool)
    options = [
        {"optionId": "allow", "name": "Yes", "kind": "allow_once"},
        {"optionId": "reject", "name": "No", "kind": "reject_once"},
    ]
    params = {"sessionId": "garden", "toolCall": tool, "options": options}
    emit(id="ask-1", method="session/request_permission", params=params)
    chosen = json.loads(sys.stdin.readline())["result"]["outcome"].get("optionId")
    status = "completed" if chosen == "allow" else "failed"
    update(sessionUpdate="tool_call_update", toolCallId="1", status=status, rawOutput=status)
    say("Watered." if chosen == "allow" else "Then not.")
    return "end_turn"


def say(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def update(**what: Any) -> None:
    emit(method="session/update", params={"sessionId": "garden", "update": what})


def answer(request: dict[str, Any], result: Any) -> None:
    emit(id=request["id"], result=result)


def emit(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
