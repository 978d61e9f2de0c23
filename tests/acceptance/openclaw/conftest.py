"""One OpenClaw of each kind for all tests, and as many as a test wants of its own."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from uuid import uuid4

import pytest
from tests.acceptance.gateway import SOURCE
from tests.acceptance.openclaw.claws import NEW, OLD, TOKEN, Claw, FakeClaw, RealClaw

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.clock import SystemClock
from trunkline.model.outputs import Output
from trunkline.ports.backend import Backend, TurnRequest
from trunkline.testing import turn_request

KINDS = [
    "fake-2026.9.6",
    "fake-2026.5.28",
    pytest.param("real-2026.9.6", marks=[pytest.mark.openclaw, pytest.mark.timeout(400)]),
    pytest.param("real-2026.5.28", marks=[pytest.mark.openclaw, pytest.mark.timeout(400)]),
]
MakeClaw = Callable[[str], Claw]


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """The model that the real OpenClaw asks."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trunkline.testing.fake_model"],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(SOURCE)},
    )
    assert process.stdout is not None
    yield f"{process.stdout.readline().decode().strip().removesuffix('/v1')}/v1"
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture(scope="session")
def make_claw(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeClaw]:
    with ExitStack() as stack:

        def make(kind: str) -> Claw:
            what, _, version = kind.partition("-")
            folder = tmp_path_factory.mktemp(kind)
            claw: Claw
            if what == "real":
                assert RealClaw.is_installed(version), "run ./check --openclaw, which installs it"
                claw = RealClaw(version, folder, request.getfixturevalue("model_url"))
            else:
                claw = FakeClaw(version, folder)
            stack.callback(claw.kill)
            return claw

        yield make


@pytest.fixture(scope="session", params=KINDS)
def claw(request: pytest.FixtureRequest, make_claw: MakeClaw) -> Iterator[Claw]:
    """One that all tests share; each has contexts of its own."""
    made = make_claw(request.param)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def fake(make_claw: MakeClaw) -> Iterator[FakeClaw]:
    """A fake of the test's own, for what the real one cannot be made to do at will."""
    made = make_claw(f"fake-{NEW}")
    assert isinstance(made, FakeClaw)
    yield made
    made.kill()


@pytest.fixture
async def backend(claw: Claw) -> AsyncIterator[OpenClawBackend]:
    made = backend_of(claw)
    yield made
    await made.close()


def backend_of(claw: Claw, **changes: object) -> OpenClawBackend:
    fields: dict[str, object] = {"url": claw.url, "token": TOKEN, "agent_id": "main"}
    fields["unreachable_s"] = claw.slow_s * 2
    return OpenClawBackend(Address(**(fields | changes)), clock=SystemClock())  # type: ignore[arg-type]


_numbers = count(1)


def a_turn(*content: object, **fields: object) -> TurnRequest:
    """A turn of a task and a conversation that nobody had before."""
    unique = f"{uuid4().hex[:8]}-{next(_numbers)}"
    given = {"run_id": f"run-{unique}", "task_id": f"task-{unique}", "context_id": f"ctx-{unique}"}
    return turn_request(*content, **(given | fields))  # type: ignore[arg-type]


async def outputs_of(backend: Backend, turn: TurnRequest) -> list[Output]:
    return [output async for output in backend.start(turn)]


async def past_the_start(claw: Claw) -> None:
    """The older release is told apart by when it started, which the real one takes seconds for."""
    await asyncio.sleep(2.5 if claw.version == OLD and not claw.is_real else 0)
