"""Gateways for the tests: two that all of them share, and as many as a test wants of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.acceptance.gateway import DEADLINE_S, Gateway, gateway
from tests.acceptance.sdk import Peer, connect

ALICE_KEY = "alice-has-this-key"
BOB_KEY = "bob-has-another-key"

KEYS = f"""
[auth.keys.alice]
key = "{ALICE_KEY}"
[auth.keys.bob]
key = "{BOB_KEY}"
"""

AGENTS = """
[agents."test/scripted"]
name = "Scripted"
description = "Does what it is told"
default = true
backend = { kind = "scripted" }
input_modes = ["text/plain", "application/json", "image/png"]

[agents."test/echo"]
name = "Echo"
backend = { kind = "echo" }

[agents."test/greeter"]
backend = { kind = "python", target = "code.py:greeter" }

[agents."test/patient"]
backend = { kind = "python", target = "code.py:patient" }

[agents."test/whole"]
name = "Does not stream"
streaming = false
backend = { kind = "echo" }

[agents."test/tenants"]
name = "For two tenants"
tenants = ["acme", "globex"]
backend = { kind = "scripted" }

[agents."test/extended"]
name = "Extended"
backend = { kind = "scripted" }
[[agents."test/extended".extensions]]
uri = "https://example.com/ext/colour/v1"
[agents."test/extended".extended_card]
description = "What only customers may know"
skills = [{ id = "secret", name = "The secret skill" }]

[agents."test/strict"]
name = "Insists on an extension"
backend = { kind = "scripted" }
[[agents."test/strict".extensions]]
uri = "https://example.com/ext/billing/v1"
required = true
"""

CODE = """
import asyncio
from pathlib import Path

from trunkline import agent

@agent(direct=True)
async def greeter(turn):
    return turn.reply(f"Hello, {turn.text}!")

@agent
async def patient(turn):
    while not Path(turn.text).exists():
        await asyncio.sleep(0.02)
    return "done"
"""

Make: TypeAlias = Callable[..., Gateway]


@pytest.fixture(scope="session")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Makes gateways that are not started yet, and ends them all after the last test."""
    with ExitStack() as stack:

        def make(config: str = "", *, agents: str = AGENTS, folder: Path | None = None) -> Gateway:
            where = folder or tmp_path_factory.mktemp("gateway")
            (where / "code.py").write_text(CODE)
            return stack.enter_context(gateway(where, f"{config}\n{agents}"))

        yield make


@pytest.fixture(scope="session")
def shared(gateways: Make) -> Gateway:
    """Open to callers without a key; alice and bob have one."""
    return gateways(f'[auth]\nanonymous = "loopback"\n{KEYS}').start()


@pytest.fixture(scope="session")
def locked(gateways: Make) -> Gateway:
    """For callers with a key only."""
    return gateways(f'[auth]\nanonymous = "never"\n{KEYS}').start()


@pytest.fixture
def make(gateways: Make, tmp_path: Path) -> Iterator[Make]:
    """Makes gateways of the test's own, which end with it."""
    made: list[Gateway] = []

    def make(config: str = "", *, agents: str = AGENTS, folder: Path | None = None) -> Gateway:
        where = folder or tmp_path / f"gateway{len(made)}"
        where.mkdir(exist_ok=True)
        made.append(gateways(config, agents=agents, folder=where))
        return made[-1]

    yield make
    for one in made:
        one.clean_up()


SPOKEN = [("jsonrpc", "1.0"), ("rest", "1.0"), ("jsonrpc", "0.3"), ("rest", "0.3")]


@pytest.fixture(params=SPOKEN, ids=["-".join(spoken) for spoken in SPOKEN])
async def peer(request: pytest.FixtureRequest, shared: Gateway) -> AsyncIterator[Peer]:
    """The SDK's client of the scripted agent, once for each binding and version."""
    async with connect(shared, *request.param) as peer:
        yield peer
        # The tests are worth nothing if the client quietly spoke something else.
        assert peer.spoken() <= {request.param}


@pytest.fixture(params=SPOKEN[:2], ids=["-".join(spoken) for spoken in SPOKEN[:2]])
async def current_peer(request: pytest.FixtureRequest, shared: Gateway) -> AsyncIterator[Peer]:
    """The same for what only 1.0 has."""
    async with connect(shared, *request.param) as peer:
        yield peer
        assert peer.spoken() <= {request.param}


async def eventually(
    condition: Callable[[], Awaitable[bool]], *, within_s: float = DEADLINE_S
) -> None:
    """Ask again and again until it holds."""
    async with asyncio.timeout(within_s):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)
