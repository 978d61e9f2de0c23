"""Deliveries from a mailbox, as a relay makes them."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from tests.relay.gateways import PATH, RelayedWorld
from tests.runtime.deliveries import given

from trunkline.model.values import Part
from trunkline.protocol.relay import deliveries
from trunkline.protocol.relay.callers import Caller
from trunkline.protocol.relay.deliveries import Delivery
from trunkline.protocol.relay.events import Accepted, Answered, Cancelled, Piece
from trunkline.relay.carrier import StreamCancelled
from trunkline.relay.relay import Attached

AGENT = "acme/scripted"


def delivery(
    text: str = "say hi",
    *,
    id: str = "given-1",
    context: str = "",
    key: str = "",
    message_id: str = "",
    digest: bytes = b"",
    parts: tuple[Part, ...] = (),
    **members: object,
) -> Delivery:
    task = given(text, id=id, context=context, message_id=message_id, parts=parts)
    made = Delivery(
        task_id=task.task_id,
        context_id=task.context_id,
        created_ms=task.created_ms,
        kind=task.kind,
        entry=task.entry,
        idempotency_key=key,
        digest=digest.hex(),
        binding="jsonrpc",
    )
    return msgspec.structs.replace(made, **members)


class Outcome(Struct):
    """What the host has answered, in this order."""

    is_accepted: bool = False
    status: int = 0
    headers: Sequence[tuple[str, str]] = ()
    text: str = ""
    cancelled: Cancelled | None = None

    @property
    def retry_after(self) -> str:
        return dict(self.headers).get("retry-after", "")


async def deliver(
    world: RelayedWorld,
    mail: Delivery,
    *,
    sender: str = "alice",
    task: str = "",
    body: bytes = b"",
    operations: tuple[str, ...] | None = None,
    target: str = PATH,
) -> Outcome:
    """Deliver as the relay does, and read to the end."""
    attached = await attached_of(world)
    data = body or deliveries.encode(mail)
    room = attached.session.first_room
    number = attached.session.open(
        agent=AGENT,
        caller=Caller(id=sender, operations=operations),
        method="POST",
        target=target,
        headers=(("content-type", "application/json"),),
        task=task or mail.task_id,
        data=data[:room],
        is_last=len(data) <= room,
    )
    stream = attached.carrier.stream(number)
    attached.carrier.flush()
    if len(data) > room:
        with suppress(StreamCancelled):
            await stream.write(data[room:], is_last=True)
    outcome = Outcome()
    try:
        while True:
            match await stream.next():
                case Accepted():
                    outcome.is_accepted = True
                case Answered(_, status, headers):
                    outcome.status, outcome.headers = status, headers
                case Piece(_, data, is_last):
                    outcome.text += data.decode()
                    if is_last:
                        return outcome
                case Cancelled() as cancelled:
                    outcome.cancelled = cancelled
                    return outcome
    finally:
        stream.close()


async def attached_of(world: RelayedWorld) -> Attached:
    assert world.relay.relaying._relay is not None
    attached = await world.relay.relaying._relay._relay.connected(AGENT, within_s=0)
    assert isinstance(attached, Attached)
    return attached
