"""JSON-RPC requests as a test writes them, and the answers as they come."""

from typing import Any

import msgspec
from tests.bindings.asgi import Answer, Http
from tests.bindings.shapes import Json
from tests.bindings.world import KEYS, World

RPC = "/a2a/jsonrpc"


async def rpc(world: World, method: str, params: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await world.http.send(
        Http(
            path=RPC,
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {KEYS['alice']}",
            }
            | named,
            body=msgspec.json.encode(
                {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            ),
        )
    )


def old(*parts: Json, **fields: Any) -> Json:
    return {"message": {"messageId": "m", "role": "user", "parts": list(parts)} | fields}
