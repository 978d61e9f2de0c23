"""`V1Directory`: the agents of a tenant, and the tasks that have waited for them, at the addresses
of older relays.

Nothing here depends on whether a tenant exists, or on what others have there.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from trunkline.engine.access import operations_of, reaches_agents_of
from trunkline.model.calls import Operation
from trunkline.model.errors import (
    PermissionDenied,
    StoreError,
    TaskNotFound,
    TrunklineError,
    Unavailable,
    WrongHttpMethod,
)
from trunkline.model.timestamps import format_timestamp
from trunkline.ports.store import Store
from trunkline.protocol.relay.v1.calls import read_call
from trunkline.protocol.relay.v1.frames import RequestPayload
from trunkline.relay.known_agents import KnownAgent, KnownAgents
from trunkline.relay.mailbox import queued_tasks
from trunkline.relay.relay import Relay
from trunkline.relay.requests import Receive, Scope, Send, refuse
from trunkline.relay.rpc_requests import RpcRequest, answer
from trunkline.relay.v1.routes import App, Failure, Identify

# The operation of the scope agents:read.
_READ_AGENTS: Final = str(Operation.GET_EXTENDED_AGENT_CARD)
# The agents that a directory shows.
MAX_AGENTS: Final = 1000
_ENDED: Final = frozenset({"completed", "failed", "canceled", "rejected"})
_encode = msgspec.json.Encoder().encode


class _Status(Struct, frozen=True):
    state: str = ""


class _Task(Struct):
    status: _Status = _Status()


class _ShownAgent(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    description: str
    online: bool
    # None for one that is away.
    connected_at: str | None
    last_seen: str


class _Queued(Struct, frozen=True, kw_only=True):
    status: str
    task_id: str


class _Completed(Struct, frozen=True, kw_only=True):
    status: str
    task_id: str
    # The task, in A2A 0.3.
    response: Raw


_task = msgspec.json.Decoder(_Task).decode


class V1Directory:
    def __init__(
        self,
        requests: App,
        *,
        identify: Identify,
        relay: Relay,
        known: KnownAgents,
        store: Callable[[], Store],
    ) -> None:
        """Other paths are those of `requests`. `identify` raises as `Access.identify` does."""
        self._requests = requests
        self._identify = identify
        self._relay = relay
        self._known = known
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["path"].split("/"):
            case ["", "t", tenant, "agents"]:
                serve = self._agents(tenant, scope, receive, send)
            case ["", "t", tenant, "tasks", id] if id:
                serve = self._poll(tenant, id, scope, receive, send)
            case _:
                await self._requests(scope, receive, send)
                return
        try:
            try:
                await serve
            except StoreError:
                raise Unavailable(
                    "The relay cannot use its store at the moment; try again later",
                    retry_after_s=5,
                ) from None
        except TrunklineError as error:
            await refuse(send, None, error)

    async def _agents(self, tenant: str, scope: Scope, receive: Receive, send: Send) -> None:
        _check_get(scope)
        principal = await self._identify(scope, receive)
        # Before anything is read, so that a caller cannot tell a tenant of others from none.
        if not reaches_agents_of(principal, tenant):
            raise PermissionDenied(
                f"This credential may not call agents of the tenant {tenant}; ask the operator of "
                "the relay to grant it"
            )
        attached = await self._relay.attached_in(tenant)
        shown: list[_ShownAgent] = []
        async for id, known in self._known.of_tenant(tenant):
            agent = f"{tenant}/{id}"
            operations = operations_of(principal, agent)
            if operations is None or _READ_AGENTS in operations:
                shown.append(_shown(id, known, is_online=agent in attached))
            if len(shown) == MAX_AGENTS:
                break
        await answer(send, 200, _encode(shown))

    async def _poll(self, tenant: str, id: str, scope: Scope, receive: Receive, send: Send) -> None:
        _check_get(scope)
        principal = await self._identify(scope, receive)
        record = await self._store().record(queued_tasks.key_of(tenant, id))
        queued = None if record is None else queued_tasks.decode(record.body)
        if queued is None or queued.owner != principal.id:
            raise TaskNotFound(id)
        params = Raw(_encode({"id": id}))
        call = read_call(RequestPayload(id="1", method="tasks/get", params=params))
        rpc = RpcRequest(call, queued.agent, scope, receive)
        await self._requests(rpc.scope, rpc.receive, rpc.take)
        if rpc.body is None:
            return
        status, result = rpc.result()
        if not isinstance(result, Raw):
            await answer(send, status, _encode(Failure(result)), rpc.headers)
        elif _task(result).status.state in _ENDED:
            completed = _Completed(status="completed", task_id=id, response=result)
            await answer(send, 200, _encode(completed))
        else:
            await answer(send, 200, _encode(_Queued(status="queued", task_id=id)))


def _check_get(scope: Scope) -> None:
    if scope["method"] != "GET":
        raise WrongHttpMethod("Read this address with GET", allow="GET")


def _shown(id: str, known: KnownAgent, *, is_online: bool) -> _ShownAgent:
    card = known.card
    seen = format_timestamp(known.last_seen_ms)
    return _ShownAgent(
        id=id,
        name=id if card is None else card.name,
        description="" if card is None else card.description,
        online=is_online,
        connected_at=seen if is_online else None,
        last_seen=seen,
    )
