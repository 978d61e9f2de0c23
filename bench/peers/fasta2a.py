"""The echo agent on fasta2a, with its in-memory storage and broker."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, Part, TaskIdParams, TaskSendParams
from fasta2a.storage import InMemoryStorage

from bench.peers.serving import arguments, serve
from bench.script import play

# A worker runs one task at a time, so the waiting fan-out needs a second one beside it for `go`.
WORKERS = 2


class EchoWorker(Worker):  # type: ignore[misc, unused-ignore]
    async def run_task(self, params: TaskSendParams) -> None:
        task_id, context_id = params["id"], params["context_id"]
        await self.storage.update_task(task_id, state="working")
        await self.publish_status(task_id, context_id, "working")
        answer = ""
        async for chunk in play(params["message"]["parts"][0]["text"]):
            piece = Artifact(artifact_id="answer", parts=[Part(text=chunk)])
            await self.publish_artifact(
                task_id, context_id, piece, append=bool(answer), last_chunk=False
            )
            answer += chunk
        artifacts = self.build_artifacts(answer)
        await self.storage.update_task(task_id, state="completed", new_artifacts=artifacts)

    async def cancel_task(self, params: TaskIdParams) -> None:
        raise NotImplementedError

    def build_message_history(self, history: list[Message]) -> list[Any]:
        return list(history)

    def build_artifacts(self, result: Any) -> list[Artifact]:
        return [Artifact(artifact_id="answer", parts=[Part(text=result)])]


def build() -> FastA2A:
    storage, broker = InMemoryStorage(), InMemoryBroker()

    @asynccontextmanager
    async def lifespan(app: FastA2A) -> AsyncIterator[None]:
        async with app.task_manager, AsyncExitStack() as workers:
            for _ in range(WORKERS):
                worker = EchoWorker(storage=storage, broker=broker)
                await workers.enter_async_context(worker.run())
            yield

    return FastA2A(storage=storage, broker=broker, lifespan=lifespan, name="bench")


if __name__ == "__main__":
    serve(build(), arguments().port)
