"""A program that uses the tools of its turn, with nothing but the standard library.

The message is JSON: `way` is `http` or `mcp`, and `call` has the arguments of `agent_call`. `print`
says the token, `keep` writes it to a file, and `hold` waits until that file is gone. With
`--end LINE` it goes on to the next message.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

URL = os.environ.get("TRUNKLINE_TOOLS_URL", "")
TOKEN = os.environ.get("TRUNKLINE_TOOLS_TOKEN", "")


def main() -> None:
    if "--end" not in sys.argv:
        answer(sys.stdin.read())
        return
    end = sys.argv[sys.argv.index("--end") + 1]
    for line in sys.stdin:
        if line.strip() != end:
            answer(line)
            print(f"\n{end}", flush=True)


def answer(text: str) -> None:
    asked = json.loads(text)
    if "keep" in asked:
        Path(asked["keep"]).write_text(f"{URL} {TOKEN}")
    while "hold" in asked and Path(asked["keep"]).exists():
        time.sleep(0.1)
    if "print" in asked:
        print(f"the token is {TOKEN}.", flush=True)
        print(f"it is {TOKEN}", file=sys.stderr)
        sys.stdout.write(TOKEN[:20])
        sys.stdout.flush()
        sys.stdout.write(TOKEN[20:])
        sys.exit(asked["print"])
    if asked.get("way") == "http":
        print(json.dumps(post("/agent_call", asked["call"])))
    elif asked.get("way") == "mcp":
        print(json.dumps(over_mcp(asked["call"])))
    else:
        print("nothing")


def over_mcp(arguments: Any) -> Any:
    """What a host does: hello, the list of tools, a call."""
    client = {"name": "uses-tools", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    rpc("initialize", hello)
    post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    names = [tool["name"] for tool in rpc("tools/list", {})["tools"]]
    result = rpc("tools/call", {"name": "agent_call", "arguments": arguments})
    return {"tools": names, "isError": result["isError"], **result["structuredContent"]}


def rpc(method: str, params: Any) -> Any:
    answer = post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return answer["result"]


def post(path: str, body: Any) -> Any:
    request = urllib.request.Request(
        URL + path,
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            data = answer.read()
    except urllib.error.HTTPError as error:
        data = error.read()
    # MCP answers with events.
    events = [line[6:] for line in data.splitlines() if line.startswith(b"data: ")]
    data = events[-1] if events else data
    return json.loads(data) if data else None


if __name__ == "__main__":
    main()
