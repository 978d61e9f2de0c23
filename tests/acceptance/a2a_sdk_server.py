"""An agent on a2a-sdk, as a process: every binding, 1.0 and the 0.3 that it still speaks."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

SUPPORT: dict[str, Any] = json.loads((Path(__file__).parent / "support.json").read_text("utf-8"))


class Executor(AgentExecutor):
    """`stream N`, `ask`, `hang`, `fail`, `direct`, or an echo; and the agent of `support.json`."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        if text == "direct":
            await event_queue.enqueue_event(new_text_message("straight"))
            return
        if text in SUPPORT["messages"]:
            said = new_text_message(SUPPORT["messages"][text], context_id=context.context_id)
            await event_queue.enqueue_event(said)
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if text in ("ask", SUPPORT["asks"]):
            await updater.requires_input()
            return
        if text == "fail":
            await updater.failed(updater.new_agent_message([new_text_part("out of paper")]))
            return
        if text in ("hang", SUPPORT["hangs"]):
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


def card(url: str, versions: tuple[str, ...]) -> AgentCard:
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
            for version in versions
            for binding, path in (("JSONRPC", "/rpc"), ("HTTP+JSON", ""))
        ],
    )


def support_card(url: str, versions: tuple[str, ...]) -> AgentCard:
    own = card(url, versions)
    own.name, own.description = SUPPORT["name"], SUPPORT["description"]
    skill = SUPPORT["skill"]
    del own.skills[:]
    own.skills.append(
        AgentSkill(
            id=skill["id"],
            name=skill["name"],
            description=skill["description"],
            tags=skill["tags"],
            examples=skill["examples"],
            input_modes=skill["inputModes"],
            output_modes=skill["outputModes"],
        )
    )
    return own


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--url", default="", help="what its card says, if that is not the port")
    parser.add_argument("--support", action="store_true", help="be the agent of support.json")
    parser.add_argument("--push", action="store_true", help="take push configurations")
    parser.add_argument("--versions", default="1.0,0.3", help="what its card offers")
    options = parser.parse_args()
    port: int = options.port
    make = support_card if options.support else card
    own = make(options.url or f"http://127.0.0.1:{port}", tuple(options.versions.split(",")))
    own.capabilities.push_notifications = options.push
    pushed = InMemoryPushNotificationConfigStore() if options.push else None
    handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), own, push_config_store=pushed)
    routes = [
        *create_agent_card_routes(own),
        *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, enable_v0_3_compat=True),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
