"""The client of a2a-sdk, and a record of what it puts on the wire."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.interceptors import ClientCallInterceptor
from a2a.types import a2a_pb2 as a2a
from a2a.utils.constants import TransportProtocol
from tests.acceptance.gateway import Gateway, http_client

BINDINGS = {"jsonrpc": TransportProtocol.JSONRPC, "rest": TransportProtocol.HTTP_JSON}


class Peer:
    """An A2A client that speaks one version over one binding."""

    def __init__(
        self,
        card: a2a.AgentCard,
        *,
        client: Client,
        waiting_client: Client,
        requests: list[httpx.Request],
    ) -> None:
        self.card = card
        self.client = client
        # The SDK sends or streams by configuration and not by call.
        self._waiting_client = waiting_client
        # All but the one for the card.
        self.requests = requests

    async def send(self, *content: str | a2a.Part, **options: Any) -> a2a.Task:
        """One answer to a message, which must be a task."""
        event = await self.answer(*content, **options)
        assert event.HasField("task"), event
        return event.task

    async def answer(
        self, *content: str | a2a.Part, call: ClientCallContext | None = None, **options: Any
    ) -> a2a.StreamResponse:
        sent = self._waiting_client.send_message(request(*content, **options), context=call)
        [event] = [event async for event in sent]
        return event

    def stream(
        self, *content: str | a2a.Part, call: ClientCallContext | None = None, **options: Any
    ) -> AsyncIterator[a2a.StreamResponse]:
        return self.client.send_message(request(*content, **options), context=call)

    async def get(self, task_id: str, **options: Any) -> a2a.Task:
        return await self.client.get_task(a2a.GetTaskRequest(id=task_id, **options))

    async def cancel(self, task_id: str) -> a2a.Task:
        return await self.client.cancel_task(a2a.CancelTaskRequest(id=task_id))

    async def list(self, **options: Any) -> a2a.ListTasksResponse:
        return await self.client.list_tasks(a2a.ListTasksRequest(**options))

    def subscribe(self, task_id: str) -> AsyncIterator[a2a.StreamResponse]:
        return self.client.subscribe(a2a.SubscribeToTaskRequest(id=task_id))

    @staticmethod
    def method(request: httpx.Request) -> str:
        """The method of a JSON-RPC request."""
        return str(json.loads(request.content)["method"])

    def spoken(self) -> set[tuple[str, str]]:
        """The binding and version of every request so far."""
        return {spoken_in(request) for request in self.requests}


@asynccontextmanager
async def connect(
    gateway: Gateway,
    binding: str,
    version: str,
    *,
    agent: str = "",
    key: str = "",
    interceptors: list[ClientCallInterceptor] | None = None,
) -> AsyncIterator[Peer]:
    """A client for the agent, made from the card that the gateway serves for this version."""
    requests: list[httpx.Request] = []

    async def record(request: httpx.Request) -> None:
        requests.append(request)

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with http_client(headers=headers) as http:
        resolver = A2ACardResolver(http, gateway.agent_url(agent) if agent else gateway.url)
        card = await resolver.get_agent_card(http_kwargs={"headers": {"A2A-Version": version}})
        http.event_hooks["request"].append(record)
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[BINDINGS[binding]])
        waiting = replace(config, streaming=False)
        yield Peer(
            card,
            client=ClientFactory(config).create(card, interceptors),
            waiting_client=ClientFactory(waiting).create(card, interceptors),
            requests=requests,
        )


def request(
    *content: str | a2a.Part, task_id: str = "", context_id: str = "", **configuration: Any
) -> a2a.SendMessageRequest:
    parts = [a2a.Part(text=part) if isinstance(part, str) else part for part in content]
    message = a2a.Message(
        message_id=str(uuid4()),
        role=a2a.ROLE_USER,
        parts=parts,
        task_id=task_id,
        context_id=context_id,
    )
    return a2a.SendMessageRequest(
        message=message, configuration=a2a.SendMessageConfiguration(**configuration)
    )


def spoken_in(request: httpx.Request) -> tuple[str, str]:
    """Binding and version, judged by what only they have and not by the header alone."""
    version = request.headers["a2a-version"]
    body = json.loads(request.content or b"{}")
    if "jsonrpc" in body:
        assert ("/" in body["method"]) is (version == "0.3"), body
        return "jsonrpc", version
    path = request.url.path.removeprefix("/api/a2a/v1")
    assert ("/v1/" in path) is (version == "0.3"), path
    return "rest", version


def text_of(task: a2a.Task) -> str:
    """The answer: the text of all artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)
