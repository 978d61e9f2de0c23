"""Our client against real agents: requests to make, and servers that are not ours."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.acceptance.gateway import DEADLINE_S

from trunkline.model.calls import SendMessageConfiguration, SendMessageRequest
from trunkline.model.values import (
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    text_of,
)
from trunkline.remote import StreamItem
from trunkline.testing import FakeClock

ROOT = Path(__file__).parents[2]
WAYS = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]


class Sleepless(FakeClock):
    """Notes how long it was to wait, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(0)


def ask(
    text: str, *, task_id: str = "", context_id: str = "", returns: bool = False
) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=str(uuid4()),
            role=Role.USER,
            parts=(Part(text=text),),
            task_id=task_id,
            context_id=context_id,
        ),
        configuration=SendMessageConfiguration(return_immediately=True) if returns else None,
    )


def answer_of(task: Task | Message) -> str:
    if isinstance(task, Message):
        return text_of(task.parts)
    return "".join(part.text or "" for artifact in task.artifacts for part in artifact.parts)


def folded(items: list[StreamItem]) -> str:
    """The text that somebody sees who follows the stream."""
    text = ""
    for item in items:
        if isinstance(item, Task):
            text = answer_of(item)
        elif isinstance(item, TaskArtifactUpdateEvent):
            piece = "".join(part.text or "" for part in item.artifact.parts)
            text = text + piece if item.append else piece
    return text


def state_of(item: StreamItem) -> TaskState | None:
    return None if isinstance(item, Message | TaskArtifactUpdateEvent) else item.status.state


async def collected(items: AsyncIterator[StreamItem]) -> list[StreamItem]:
    return [item async for item in items]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def served(*command: str) -> Iterator[str]:
    """A process that serves a card, once it does. The port is the last argument."""
    port = free_port()
    process = subprocess.Popen([*command, str(port)], cwd=ROOT, stdin=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not _answers(url):
            assert process.poll() is None, "the server ended at once"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=5):
            return True
    except OSError:
        return False


def sdk_server() -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.acceptance.a2a_sdk_server", "--port")
