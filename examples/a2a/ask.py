"""Talks to the agent of trunkline.toml, and asks for what the agent behind it does not have."""

import asyncio
import sys

from trunkline.model.values import Message, Task, text_of
from trunkline.remote import connect


async def main(url: str) -> None:
    async with connect(url) as agent:
        task_id = ""
        async for event in agent.stream("Polly wants a cracker"):
            if isinstance(event, Task):
                task_id = event.id
            if not isinstance(event, Message):
                print(type(event).__name__)
        task = await agent.get(task_id)
        print(task.status.state, text_of(task.artifacts[0].parts))
        print("listed:", (await agent.list()).total_size)
        card = await agent.card(fresh=True)
        print(f"{card.name}: {card.description}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8642"))
