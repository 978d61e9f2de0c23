"""The echo agent on a2a-sdk, with its in-memory store or its database store."""

from argparse import Namespace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from bench.peers.serving import arguments, serve
from bench.script import play


class EchoExecutor(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        append = False
        async for chunk in play(context.get_user_input()):
            await updater.add_artifact([new_text_part(chunk)], artifact_id="answer", append=append)
            append = True
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def card(port: int) -> AgentCard:
    return AgentCard(
        name="bench",
        description="Echo",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Echo", tags=["echo"])],
        supported_interfaces=[
            AgentInterface(
                protocol_binding="JSONRPC", protocol_version="1.0", url=f"http://127.0.0.1:{port}/"
            )
        ],
    )


def sqlite_store(data: Path) -> TaskStore:
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy import event  # type: ignore[import-not-found, unused-ignore]
    from sqlalchemy.ext.asyncio import (  # type: ignore[import-not-found, unused-ignore]
        create_async_engine,
    )

    # SQLite has one writer: a second connection only waits for its lock.
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{data / 'tasks.db'}", pool_size=1, max_overflow=0, pool_timeout=120
    )

    def on_connect(connection: Any, _record: Any) -> None:
        # The durability that Trunkline is measured with.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    event.listen(engine.sync_engine, "connect", on_connect)
    return DatabaseTaskStore(engine)


def postgres_store(url: str) -> TaskStore:
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.engine import URL  # type: ignore[import-not-found, unused-ignore]
    from sqlalchemy.ext.asyncio import (  # type: ignore[import-not-found, unused-ignore]
        create_async_engine,
    )

    parts = urlsplit(url)
    where = URL.create(
        "postgresql+asyncpg",
        username=parts.username,
        database=parts.path.lstrip("/"),
        query={"host": parse_qs(parts.query)["host"][0]},
    )
    return DatabaseTaskStore(create_async_engine(where, pool_size=16, max_overflow=0))


def chosen_store(options: Namespace) -> TaskStore:
    match options.store:
        case "sqlite":
            return sqlite_store(options.data)
        case "postgres":
            return postgres_store(options.db)
        case _:
            return InMemoryTaskStore()


def main() -> None:
    options = arguments()
    store = chosen_store(options)
    own = card(options.port)
    handler = DefaultRequestHandler(EchoExecutor(), store, own)
    routes = [*create_agent_card_routes(own), *create_jsonrpc_routes(handler, "/")]
    serve(Starlette(routes=routes), options.port)


if __name__ == "__main__":
    main()
