# mypy: ignore-errors
"""An agent on a2a-sdk 0.3, in an environment of its own: `python server.py --port N`."""

import argparse
import asyncio
import json
from pathlib import Path

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_agent_text_message, new_task

SUPPORT = json.loads((Path(__file__).parents[1] / "support.json").read_text("utf-8"))


class Executor(AgentExecutor):
    """`stream N`, `ask`, `hang`, `fail`, or an echo; and the agent of `support.json`."""

    async def execute(self, context, event_queue):
        text = context.get_user_input()
        if text in SUPPORT["messages"]:
            said = new_agent_text_message(SUPPORT["messages"][text], context_id=context.context_id)
            await event_queue.enqueue_event(said)
            return
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text in ("ask", SUPPORT["asks"]):
            await updater.requires_input(new_agent_text_message("which one?"))
            return
        if text == "fail":
            await updater.failed(new_agent_text_message("out of paper"))
            return
        if text in ("hang", SUPPORT["hangs"]):
            await asyncio.Event().wait()
        pieces = [text]
        if text.startswith("stream "):
            pieces = [f"{index} " for index in range(int(text.split()[1]))]
        for index, piece in enumerate(pieces):
            await asyncio.sleep(0.003)
            parts = [Part(root=TextPart(text=piece))]
            await updater.add_artifact(parts, artifact_id="answer", append=index > 0)
        await updater.complete()

    async def cancel(self, context, event_queue):
        task = context.current_task
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--support", action="store_true", help="be the agent of support.json")
    options = parser.parse_args()
    port = options.port
    card = AgentCard(
        name="SDK 0.3",
        description="An agent on a2a-sdk 0.3",
        version="0.9",
        url=f"http://127.0.0.1:{port}/",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Echo", tags=["echo"])],
    )
    if options.support:
        card.name, card.description = SUPPORT["name"], SUPPORT["description"]
        card.skills = [AgentSkill.model_validate(SUPPORT["skill"])]
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
