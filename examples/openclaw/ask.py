"""Talks to the agent of trunkline.toml: an answer as it streams, and a run that is stopped."""

import asyncio
import sys

from trunkline.model.values import Task, TaskArtifactUpdateEvent, text_of
from trunkline.remote import RemoteAgent, connect


async def ask(agent: RemoteAgent, text: str) -> None:
    """Prints the answer piece by piece, and how it ended."""
    print(f"> {text}")
    task_id = ""
    async for event in agent.stream(text):
        if isinstance(event, Task):
            task_id = event.id
        if isinstance(event, TaskArtifactUpdateEvent):
            print(text_of(event.artifact.parts), end="", flush=True)
    print(f"\n{(await agent.get(task_id)).status.state}")


async def stop(agent: RemoteAgent, text: str) -> None:
    """Cancels the task with the first word of the answer."""
    print(f"> {text}")
    task_id = ""
    async for event in agent.stream(text):
        if isinstance(event, Task):
            task_id = event.id
        if isinstance(event, TaskArtifactUpdateEvent):
            break
    print((await agent.cancel(task_id)).status.state)


async def main(url: str) -> None:
    async with connect(url) as agent:
        await ask(agent, "Why is the sky blue?")
        await stop(agent, "SLOW 1000 100")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8642"))
