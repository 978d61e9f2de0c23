"""`find_nodes`: the gateways that use a store, for `trunkline nodes`.

`this_gateway` is what a running gateway tells of itself over the operators' channel.
"""

import asyncio
import os
import socket

import msgspec
from msgspec import Struct

from trunkline.app.operator_client import NotRunning, call_gateway
from trunkline.app.postgres import read_nodes
from trunkline.model.errors import OperatorRefused
from trunkline.settings import StoreSettings
from trunkline.version import VERSION


class NodeInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """One gateway, as `trunkline nodes` shows it. The keys are those of its JSON output."""

    # Empty for a gateway whose store belongs to one process.
    node: str = ""
    host: str
    pid: int
    release: str
    started_ms: int
    is_alive: bool = True
    # Seconds since its last sign of life, and how many lanes it owns; None for a store that
    # belongs to one process.
    beat_ago_s: float | None = None
    lanes: int | None = None
    # Whether the command found it by its own files, on this machine.
    is_here: bool = False


def this_gateway(started_ms: int) -> NodeInfo:
    return NodeInfo(
        host=socket.gethostname(), pid=os.getpid(), release=VERSION, started_ms=started_ms
    )


def find_nodes(store: StoreSettings, *, lease_s: float) -> list[NodeInfo]:
    """Raises NotRunning, ConfigError, StoreError and OperatorRefused."""
    if store.kind != "postgres":
        found = msgspec.convert(call_gateway(store, "nodes"), NodeInfo)
        return [msgspec.structs.replace(found, is_here=True)]
    here = _gateway_here(store)
    return [
        NodeInfo(
            node=each.node,
            host=each.host,
            pid=each.pid,
            release=each.release,
            started_ms=each.started_ms,
            is_alive=each.is_alive,
            beat_ago_s=round(lease_s - each.lease_left_s, 3),
            lanes=each.lanes,
            is_here=(each.host, each.pid) == here and each.is_alive,
        )
        for each in asyncio.run(read_nodes(store))
    ]


def _gateway_here(store: StoreSettings) -> tuple[str, int] | None:
    """Host and process of the gateway that answers on this machine."""
    try:
        found = msgspec.convert(call_gateway(store, "nodes"), NodeInfo)
    except (NotRunning, OperatorRefused):
        return None
    return found.host, found.pid
