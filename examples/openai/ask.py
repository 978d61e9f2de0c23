"""Talks to the agent of trunkline.toml: an answer as it streams, and a second question."""

import asyncio
import sys

from trunkline.model.calls import SendMessageRequest
from trunkline.model.values import Message, Part, Role, Task, TaskArtifactUpdateEvent, text_of
from trunkline.remote import RemoteAgent, connect


async def ask(agent: RemoteAgent, text: str, context_id: str = "") -> str:
    """Prints the answer piece by piece; returns the conversation that it belongs to."""
    message = Message(
        message_id=f"question-{text}",
        context_id=context_id,
        role=Role.USER,
        parts=(Part(text=text),),
    )
    print(f"> {text}")
    task_id = ""
    async for event in agent.stream(SendMessageRequest(message=message)):
        if isinstance(event, Task):
            task_id, context_id = event.id, event.context_id
        if isinstance(event, TaskArtifactUpdateEvent):
            print(text_of(event.artifact.parts), end="", flush=True)
    status = (await agent.get(task_id)).status
    usage = (status.message.metadata or {}).get("usage", {}) if status.message else {}
    print(f"\n{status.state}, {usage.get('outputTokens', 0)} tokens")
    return context_id


async def main(url: str) -> None:
    async with connect(url) as agent:
        context_id = await ask(agent, "Why is the sky blue?")
        await ask(agent, "And at night?", context_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8642"))
