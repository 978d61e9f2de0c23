# mypy: ignore-errors
"""The client of a2a-sdk 0.3 on streams that are refused: `python refused_streams.py URL…`.

Prints, as JSON, what its user sees: for each URL of JSON-RPC and each way to ask for a stream the
class of the exception and its text.
"""

import asyncio
import json
import sys

import httpx
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.types import Message, MessageSendParams, Part, Role, TaskIdParams, TextPart


async def refusal_of(stream):
    try:
        async for _ in stream:
            pass
    except Exception as error:  # noqa: BLE001 - whatever it is, the test wants to see it
        return {"name": type(error).__name__, "text": str(error)}
    return None


async def main(urls):
    text = Part(root=TextPart(text="hello"))
    message = Message(message_id="m", role=Role.user, parts=[text], task_id="made-up")
    told = []
    async with httpx.AsyncClient() as http:
        for url in urls:
            client = JsonRpcTransport(http, url=url)
            sent = client.send_message_streaming(MessageSendParams(message=message))
            resubscribed = client.resubscribe(TaskIdParams(id="made-up"))
            told.append(
                {"stream": await refusal_of(sent), "resubscribe": await refusal_of(resubscribed)}
            )
    print(json.dumps(told))


asyncio.run(main(sys.argv[1:]))
