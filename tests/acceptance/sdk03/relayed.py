# mypy: ignore-errors
"""The client of a2a-sdk 0.3 with an agent of a relay: `python relayed.py URL KEY`.

Prints, as JSON, what its user sees over each binding.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.types import (
    AgentCard,
    Message,
    MessageSendConfiguration,
    MessageSendParams,
    Part,
    Role,
    TaskIdParams,
    TaskQueryParams,
    TextPart,
)


def params(text, *, blocking=True):
    message = Message(
        message_id=str(uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))]
    )
    return MessageSendParams(
        message=message, configuration=MessageSendConfiguration(blocking=blocking)
    )


async def story(client):
    sent = await client.send_message(params("say all is well"))
    got = await client.get_task(TaskQueryParams(id=sent.id))
    streamed = [event async for event in client.send_message_streaming(params("stream 3"))]
    running = await client.send_message(params("hang", blocking=False))
    following = client.resubscribe(TaskIdParams(id=running.id))
    opening = await anext(following)
    canceled = await client.cancel_task(TaskIdParams(id=running.id))
    followed = [event async for event in following]
    return {
        "sent": sent.status.state.value,
        "same": got.id == sent.id,
        "streamed": [event.kind for event in streamed],
        "said": "".join(
            part.root.text
            for event in streamed
            if event.kind == "artifact-update"
            for part in event.artifact.parts
        ),
        "opening": opening.id == running.id,
        "canceled": canceled.status.state.value,
        "followed": followed[-1].status.state.value,
    }


async def main(url, key):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
        answer = await http.get(f"{url}/.well-known/agent-card.json")
        card = AgentCard.model_validate(answer.json())
        told = {"jsonrpc": await story(JsonRpcTransport(http, agent_card=card))}
        # In 0.3 the paths of HTTP+JSON begin with /v1.
        told["rest"] = await story(RestTransport(http, agent_card=card))
    print(json.dumps(told))


asyncio.run(main(*sys.argv[1:]))
