"""The agents that the browser tests talk to."""

CONFIG = """
[console]
visits = "any"

[agents."demo/echo"]
name = "Echo"
description = "Says what it hears"
default = true
backend = { kind = "echo" }

[agents."demo/writer"]
backend = { kind = "python", target = "code.py:writer" }

[agents."demo/planner"]
backend = { kind = "python", target = "code.py:planner" }

[agents."demo/worker"]
backend = { kind = "python", target = "code.py:worker" }

[agents."demo/boss"]
backend = { kind = "python", target = "code.py:boss" }

[agents."demo/scripted"]
name = "Scripted"
description = "Does what it is told"
backend = { kind = "scripted" }
input_modes = ["text/plain", "application/json", "image/png"]
"""

CODE = '''
import asyncio
from pathlib import Path

from trunkline import agent

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f0005000201f5a2d4e30000000049454e44ae426082"
)


@agent(name="Writer", skills=["write"])
async def writer(turn):
    """Streams Markdown, one word at a time, and goes on when the file FOLDER/go is there."""
    text = "# A heading\\n\\nSome **bold** text, `code` and a [link](https://example.com).\\n\\n"
    text += "| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n```python\\nprint('hello')\\n```\\n"
    for word in text.split(" "):
        yield word + " "
    if turn.text.startswith("wait "):
        gate = Path(turn.text.removeprefix("wait "))
        yield "waiting\\n"
        while not gate.exists():
            await asyncio.sleep(0.02)
        yield "done waiting\\n"


@agent(name="Planner", skills=["plan"])
async def planner(turn):
    """Asks how many days, and plans them."""
    if turn.asked is None:
        yield turn.ask("How many days?")
        return
    for day in range(1, int(turn.text) + 1):
        yield f"Day {day}: explore. "


@agent(name="Worker", skills=["work"])
async def worker(turn):
    """Uses a tool, and sends data, a picture and a file."""
    call = turn.tool("search", {"query": turn.text})
    yield call
    yield call.update({"found": 1})
    yield call.result({"found": 2})
    yield turn.artifact(name="numbers", data={"answer": 42, "list": [1, 2, 3]})
    yield turn.artifact(name="dot", raw=PIXEL, media_type="image/png", filename="dot.png")
    yield turn.artifact(name="n", raw=b"a,b\\n1,2\\n", media_type="text/csv", filename="notes.csv")
    yield f"I got {len(turn.files)} files."


@agent(name="Boss", skills=["lead"])
async def boss(turn):
    """Asks two others at once, and then the echo."""
    plan = turn.call_batch(
        [
            {"agent": "demo/echo", "input": "first"},
            {"agent": "demo/writer", "input": "second"},
        ]
    )
    async for _ in plan:
        pass
    answer = await turn.call("demo/echo", "third")
    yield f"All done: {answer['status']}"
'''
