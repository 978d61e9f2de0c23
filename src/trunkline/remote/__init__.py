"""Calling other agents: `async with connect(url) as agent`.

Imports `protocol`, `ports` and `model`; the only package that makes requests of its own.

Read in this order: `target`, `credentials` and `headers` (whom to call, and as whom), `errors`,
`agent` (the calls), `link` (what all calls of one peer share) with `cards`, `signatures`,
`interfaces` and `reading`, `attempts` with `breaker` and `retries` (how often), `sender` with
`tokens` and `http` (what goes out), then `streams` with `events` and `seen` (following a task
over cuts), `pool` and `sync`. `progress` is what a peer has said so far. `peer` is what others
need of all that, and `tool` is one of them: the `remote_agent` tool.
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
