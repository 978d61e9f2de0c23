"""Has another agent of the gateway count the words of a message."""

import json
import os
import sys
import urllib.request

url, token = os.environ.get("TRUNKLINE_TOOLS_URL"), os.environ.get("TRUNKLINE_TOOLS_TOKEN")
if not url or not token:
    sys.exit("there is no gateway that could ask another agent: start one with trunkline serve")
call = {"agent": "demo/count", "input": sys.stdin.read(), "wait": True}
request = urllib.request.Request(
    f"{url}/agent_call",
    data=json.dumps(call).encode(),
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as answer:
    result = json.load(answer)
print(f"{result['status']}:\n{result['output']}")
