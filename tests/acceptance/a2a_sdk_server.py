"""An agent on a2a-sdk, as a process: every binding, 1.0 and the 0.3 that it still speaks."""

import argparse
import asyncio

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """`stream N`, `ask`, `hang`, `direct`, or an echo."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        if text == "direct":
            await event_queue.enqueue_event(new_text_message("straight"))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text == "ask":
            await updater.requires_input()
            return
        if text == "hang":
            await asyncio.Event().wait()
        pieces = [text]
        if text.startswith("stream "):
            pieces = [f"{index} " for index in range(int(text.split()[1]))]
        for index, piece in enumerate(pieces):
            await asyncio.sleep(0.003)
            parts = [new_text_part(piece)]
            await updater.add_artifact(parts, artifact_id="answer", append=index > 0)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.current_task is not None
        task = context.current_task
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()


def card(url: str) -> AgentCard:
    return AgentCard(
        name="SDK",
        description="An agent on a2a-sdk",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Echo", tags=["echo"])],
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, protocol_version=version, url=url + path)
            for version in ("1.0", "0.3")
            for binding, path in (("JSONRPC", "/rpc"), ("HTTP+JSON", ""))
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--url", default="", help="what its card says, if that is not the port")
    options = parser.parse_args()
    port: int = options.port
    own = card(options.url or f"http://127.0.0.1:{port}")
    handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), own)
    routes = [
        *create_agent_card_routes(own),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
