import pytest

from trunkline.model.errors import TooManyRequests, Unavailable
from trunkline.server.mcp.http import Sessions


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.sessions = Sessions(limit=5, limit_per_caller=3, idle_s=10.0, now=lambda: self.now)
        self._count = 0

    def open(self, principal: str) -> str:
        self.sessions.begin_opening(principal)
        self._count += 1
        self.sessions.end_opening(principal, f"s-{self._count}")
        return f"s-{self._count}"


def test_one_caller_may_have_so_many() -> None:
    world = World()
    first, *_ = [world.open("alice") for _ in range(3)]
    with pytest.raises(TooManyRequests, match="max_mcp_sessions_per_caller") as caught:
        world.open("alice")
    assert caught.value.retry_after_s > 0
    world.open("bob")
    world.sessions.end(first)
    world.open("alice")


def test_all_together_may_have_so_many() -> None:
    world = World()
    for principal in ("alice", "alice", "bob", "bob", "carol"):
        world.open(principal)
    with pytest.raises(Unavailable, match="5 MCP sessions are open"):
        world.open("carol")


def test_those_that_are_being_opened_count() -> None:
    world = World()
    for _ in range(3):
        world.sessions.begin_opening("alice")
    with pytest.raises(TooManyRequests):
        world.sessions.begin_opening("alice")
    # Nothing came of one.
    world.sessions.end_opening("alice", None)
    world.sessions.begin_opening("alice")
    world.sessions.begin_opening("bob")
    world.sessions.begin_opening("bob")
    with pytest.raises(Unavailable):
        world.sessions.begin_opening("carol")


def test_an_idle_session_ends_and_one_in_use_does_not() -> None:
    world = World()
    streaming, used, _ = (world.open("alice") for _ in range(3))
    world.sessions.enter(streaming)
    world.now = 5.0
    world.sessions.enter(used)
    world.sessions.leave(used)
    world.now = 10.0
    world.open("alice")
    with pytest.raises(TooManyRequests):
        world.open("alice")
    world.now = 15.0
    world.sessions.leave(streaming)
    world.open("alice")
    with pytest.raises(TooManyRequests):
        world.open("alice")


def test_a_session_that_nobody_opened_is_nothing() -> None:
    world = World()
    world.sessions.enter("made-up")
    world.sessions.leave("made-up")
    world.sessions.end("made-up")
    world.open("alice")
