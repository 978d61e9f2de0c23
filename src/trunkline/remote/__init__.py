"""The client library for other agents: `async with connect(url) as agent`.

Imports `protocol`, `ports` and `model`; the only package that makes requests of its own.

Read in this order: `target` and `credentials` (the address of an agent, the headers it gets),
`errors`, `agents` (the public calls), `peer_client` (connections, card and circuit of one agent)
with `authorization`, `interfaces`, `card_cache`, `card_signatures`, `responses` and `retries`, then
`http`. `streams` follows a task over broken connections, with `deduplication`; `progress` folds
its events. `sync` is the client without asyncio, `tool` the `remote_agent` tool.
"""

from trunkline.protocol.client_responses import StreamItem, TaskPage
from trunkline.remote.agents import Agents, RemoteAgent, connect
from trunkline.remote.card_signatures import signers
from trunkline.remote.credentials import ApiKey, Bearer, ClientCredentials
from trunkline.remote.errors import (
    AddressRefused,
    BadPeerAnswer,
    InvalidTarget,
    PeerRefused,
    PeerTimeout,
    PeerUnreachable,
    RemoteError,
    StreamEnded,
    TransportUnsupported,
)
from trunkline.remote.sync import SyncAgent, connect_sync
from trunkline.remote.target import Limits, Target

__all__ = [
    "AddressRefused",
    "Agents",
    "ApiKey",
    "BadPeerAnswer",
    "Bearer",
    "ClientCredentials",
    "InvalidTarget",
    "Limits",
    "PeerRefused",
    "PeerTimeout",
    "PeerUnreachable",
    "RemoteAgent",
    "RemoteError",
    "StreamEnded",
    "StreamItem",
    "SyncAgent",
    "Target",
    "TaskPage",
    "TransportUnsupported",
    "connect",
    "connect_sync",
    "signers",
]
