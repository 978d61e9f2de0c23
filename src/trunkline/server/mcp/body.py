"""`checked_body`: lets the library have a body that is within the limits of the gateway."""

from trunkline.protocol.limits import check_json
from trunkline.server.asgi import Message, Receive
from trunkline.server.endpoint import Limits
from trunkline.server.http import Request


async def checked_body(request: Request, receive: Receive, limits: Limits) -> Receive:
    """A `receive` that gives the body again, after it was found to be within the limits. Raises
    CallerError and Disconnected."""
    body = await request.body(limit=limits.max_body_bytes)
    check_json(body, max_depth=limits.max_json_depth)
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again
