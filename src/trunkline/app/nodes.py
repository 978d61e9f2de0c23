"""`find_nodes`: the gateways that use a store, for `trunkline nodes`.

`this_gateway` is what a running gateway tells of itself over the operators' channel.
"""

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from trunkline.app.operator_client import NotRunning, call_gateway
from trunkline.app.postgres import read_nodes
from trunkline.model.errors import OperatorRefused
from trunkline.settings import StoreSettings
from trunkline.version import VERSION

if TYPE_CHECKING:
    from trunkline.stores.postgres.nodes import NodeState


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
    found_nodes = [node_info(each, lease_s=lease_s) for each in asyncio.run(read_nodes(store))]
    return [
        msgspec.structs.replace(each, is_here=each.is_alive and (each.host, each.pid) == here)
        for each in found_nodes
    ]


def node_info(row: "NodeState", *, lease_s: float) -> NodeInfo:
    """A node as the database has it."""
    return NodeInfo(
        node=row.node,
        host=row.host,
        pid=row.pid,
        release=row.release,
        started_ms=row.started_ms,
        is_alive=row.is_alive,
        beat_ago_s=round(lease_s - row.lease_left_s, 3),
        lanes=row.lanes,
    )


def _gateway_here(store: StoreSettings) -> tuple[str, int] | None:
    """Host and process of the gateway that answers on this machine."""
    try:
        found = msgspec.convert(call_gateway(store, "nodes"), NodeInfo)
    except (NotRunning, OperatorRefused):
        return None
    return found.host, found.pid
