"""`pytest_file`: a recorded task as a Python file that sends its messages again.

Every text of the task is in the file as a literal with ASCII alone. So no text, whatever it holds,
can end a literal, become code, or look like other code.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from trunkline.console.recordings.recorded_tasks import Action, Cancels, Expects, Sends

_TEMPLATE: Final = '''\
"""Sends the messages of a recorded task to an agent, and checks its answers.

    A2A_URL=http://127.0.0.1:8080/a2a/jsonrpc pytest {name}
    python {name} http://127.0.0.1:8080/a2a/jsonrpc

A2A_TOKEN is sent as a bearer token. A2A_TIMEOUT is in seconds. The file needs Python alone, and
speaks A2A 1.0 over JSON-RPC. Answers must be equal; set EXACT to False for agents that do not
always use the same words.
"""

import json
import os
import sys
import time
import urllib.request
import uuid

# The recorded task, its agent, and the address that this agent had.
TASK = {task}
AGENT = {agent}
URL = {url}
EXACT = True
STEPS = [
{steps}
]

SETTLED = (
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_AUTH_REQUIRED",
)


class Conversation:
    def __init__(self, url):
        self.url = url
        self.timeout = float(os.environ.get("A2A_TIMEOUT", "120"))
        self.task = {{}}

    def call(self, method, params):
        body = {{"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}}
        headers = {{"Content-Type": "application/json", "A2A-Version": "1.0"}}
        if os.environ.get("A2A_TOKEN"):
            headers["Authorization"] = "Bearer " + os.environ["A2A_TOKEN"]
        request = urllib.request.Request(
            self.url, json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=self.timeout) as response:
            answer = json.load(response)
        assert "error" not in answer, answer.get("error")
        return answer["result"]

    def send(self, message, waits):
        message = dict(message, messageId=str(uuid.uuid4()))
        if self.task.get("id"):
            message["taskId"] = self.task["id"]
            message["contextId"] = self.task.get("contextId", "")
        configuration = {{"returnImmediately": not waits}}
        result = self.call("SendMessage", {{"message": message, "configuration": configuration}})
        if "message" in result:
            # The agent answered without a task.
            status = {{"state": "TASK_STATE_COMPLETED", "message": result["message"]}}
            self.task = {{"status": status}}
        else:
            self.task = result["task"]

    def cancel(self):
        self.task = self.call("CancelTask", {{"id": self.task["id"]}})

    def settle(self):
        ends = time.monotonic() + self.timeout
        while self.task["status"]["state"] not in SETTLED:
            assert time.monotonic() < ends, "the task is still in " + self.task["status"]["state"]
            time.sleep(0.1)
            self.task = self.call("GetTask", {{"id": self.task["id"]}})

    def answer(self):
        status = self.task["status"]
        said = text_of(status.get("message") or {{}}, "\\n")
        if status["state"] in SETTLED[-2:]:
            return said
        artifacts = self.task.get("artifacts") or []
        return "\\n".join(filter(None, (text_of(each, "") for each in artifacts))) or said


def text_of(item, between):
    return between.join(part["text"] for part in item.get("parts", ()) if "text" in part)


def run(url):
    assert url, "say where the agent is: set A2A_URL to the address of its JSON-RPC interface"
    conversation = Conversation(url)
    for number, (action, value) in enumerate(STEPS, 1):
        where = "step %d" % number
        if action == "send":
            conversation.send(value["message"], value["waits"])
        elif action == "cancel":
            conversation.cancel()
        else:
            conversation.settle()
            state = conversation.task["status"]["state"]
            answer = conversation.answer()
            assert state == value["state"], "%s: %s: %s" % (where, state, answer)
            if EXACT:
                assert answer == value["answer"], where


def test_recorded_task():
    run(os.environ.get("A2A_URL") or URL)


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("A2A_URL") or URL)
'''

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9]+")
# The members that belong to the recorded task alone.
_OF_THE_TASK: Final = ("messageId", "taskId", "contextId", "referenceTaskIds")


def file_name(task_id: str) -> str:
    """The name of the file, without any character that a path or a header gives a meaning."""
    return f"test_recorded_{_UNSAFE.sub('_', task_id)[:80].strip('_') or 'task'}.py"


def pytest_file(task_id: str, agent: str, actions: Iterator[Action], *, url: str) -> str:
    """`url` is the address of the JSON-RPC interface of the agent; empty if it has none now."""
    return _TEMPLATE.format(
        name=file_name(task_id),
        task=literal(task_id),
        agent=literal(agent),
        url=literal(url),
        steps="\n".join([f"    {_step(action)}," for action in actions]),
    )


def _step(action: Action) -> str:
    name, value = _name_and_value(action)
    return f"({literal(name)}, {literal(value)})"


def _name_and_value(action: Action) -> tuple[str, Any]:
    match action:
        case Sends(message, waits):
            tree = msgspec.to_builtins(message)
            for name in _OF_THE_TASK:
                tree.pop(name, None)
            return "send", {"message": tree, "waits": waits}
        case Cancels():
            return "cancel", None
        case Expects(state, answer):
            return "expect", {"state": str(state), "answer": answer}


def literal(value: Any) -> str:
    """A JSON value as a Python literal of ASCII characters."""
    match value:
        case dict():
            members = [f"{literal(name)}: {literal(each)}" for name, each in value.items()]
            return f"{{{', '.join(members)}}}"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case str():
            # `str` itself, because a member of an enum has a `repr` of its own.
            return ascii(str(value))
        case float() if not math.isfinite(value):
            return f"float({str(value)!a})"
        case None | bool() | int() | float():
            return ascii(value)
        case _:
            raise TypeError(f"no JSON value: {type(value).__name__}")
