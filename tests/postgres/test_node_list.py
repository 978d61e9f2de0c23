"""What operators see of the nodes that share a database."""

import os

import pytest
from msgspec import structs
from tests.postgres.nodes import end_lease, postgres_nodes
from tests.postgres.server import PostgresServer

from trunkline.model.errors import StoreUnusable
from trunkline.ports.cluster import lane_name
from trunkline.stores.postgres.nodes import read_nodes
from trunkline.testing.stores.kit import ALICE, create, put
from trunkline.version import VERSION


async def test_nodes_are_listed_with_their_lanes(postgres_url: str) -> None:
    async with postgres_nodes(postgres_url) as nodes:
        one, two = await nodes.add(), await nodes.add()
        await put(one.store, structs.replace(create("a"), lane=lane_name(ALICE, "context")))
        listed = {state.node: state for state in await read_nodes(postgres_url)}
        assert set(listed) == {f"{node.store.node:016x}" for node in (one, two)}
        first, second = listed[f"{one.store.node:016x}"], listed[f"{two.store.node:016x}"]
        assert (first.pid, first.release, first.lanes) == (os.getpid(), VERSION, 1)
        assert second.lanes == 0
        assert all(state.is_alive and state.dead_for_s is None for state in listed.values())
        assert 0 < first.lease_left_s <= nodes.times.lease_s


async def test_nodes_that_left_or_whose_lease_is_over_are_not_alive(postgres_url: str) -> None:
    async with postgres_nodes(postgres_url) as nodes:
        one, two = await nodes.add(), await nodes.add()
        await end_lease(postgres_url, one.store.node)
        await two.cluster.resign()
        states = {state.node: state for state in await read_nodes(postgres_url)}
        late, left = states[f"{one.store.node:016x}"], states[f"{two.store.node:016x}"]
        assert not late.is_alive
        assert late.dead_for_s is None
        assert late.lease_left_s <= 0
        assert not left.is_alive
        assert left.dead_for_s is not None


async def test_an_empty_database_has_no_nodes(postgres_server: PostgresServer) -> None:
    assert await read_nodes(postgres_server.url("postgres")) == []


async def test_a_database_that_is_not_there_is_named(postgres_server: PostgresServer) -> None:
    url = postgres_server.url("nowhere")
    with pytest.raises(StoreUnusable, match="nowhere"):
        await read_nodes(url)
