"""Lost connections and restarts, of OpenClaw's and of ours: nothing is lost, nothing doubled."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.acceptance.openclaw.claws import OLD, TOKEN, Claw
from tests.acceptance.openclaw.conftest import (
    KINDS,
    MakeClaw,
    a_turn,
    backend_of,
    outputs_of,
    past_the_start,
)
from tests.acceptance.openclaw.wire import Wire, wire_to

from trunkline.backends.openclaw.address import Address
from trunkline.backends.openclaw.backend import OpenClawBackend
from trunkline.backends.openclaw.recovery import LOST
from trunkline.clock import SystemClock
from trunkline.model.outputs import Failed, Final, Note, Output, Text, TextReplaced
from trunkline.testing import FakeSession, answer_text


@pytest.fixture
async def wire(claw: Claw) -> AsyncIterator[Wire]:
    async with wire_to(claw.port) as wire:
        yield wire


@pytest.fixture
async def wired(wire: Wire) -> AsyncIterator[OpenClawBackend]:
    """A backend on a wire that the test can cut."""
    address = Address(url=wire.url, token=TOKEN, unreachable_s=30)
    backend = OpenClawBackend(address, clock=SystemClock())
    yield backend
    await backend.close()


def words(count: int) -> str:
    return " ".join(f"w{number}" for number in range(count))


def seen(outputs: list[Output]) -> str:
    """What a reader of the stream has before the end."""
    text = ""
    for output in outputs:
        if isinstance(output, Text):
            text += output.delta
        elif isinstance(output, TextReplaced):
            text = output.text
    return text


async def until_text(outputs: AsyncIterator[Output], count: int) -> list[Output]:
    """The outputs up to so many words."""
    heard: list[Output] = []
    async for output in outputs:
        heard.append(output)
        if len(seen(heard).split()) >= count:
            break
    return heard


async def test_a_cut_connection_loses_and_doubles_nothing(
    wired: OpenClawBackend, wire: Wire
) -> None:
    outputs = wired.start(a_turn("SLOW 20 100"))
    heard = await until_text(outputs, 3)
    wire.cut()
    heard += await until_text(outputs, 8)
    wire.cut()
    heard += [output async for output in outputs]
    assert isinstance(heard[-1], Final)
    assert words(20).startswith(seen(heard))
    assert answer_text(heard) == words(20)
    assert wire.connections == 3


async def test_a_run_that_ends_while_we_are_away_is_picked_up(
    wired: OpenClawBackend, wire: Wire
) -> None:
    outputs = wired.start(a_turn("SLOW 10 100"))
    heard = await until_text(outputs, 2)
    wire.unplug()
    heard.append(await anext(outputs))
    assert isinstance(heard[-1], Note)
    await asyncio.sleep(3)
    wire.plug_in()
    heard += [output async for output in outputs]
    assert answer_text(heard) == words(10)
    assert words(10).startswith(seen(heard))


async def test_a_queued_run_outlives_the_connection(wired: OpenClawBackend, wire: Wire) -> None:
    first = a_turn("SLOW 20 100")
    running = wired.start(first)
    heard = await until_text(running, 2)
    async with asyncio.TaskGroup() as group:
        second = group.create_task(outputs_of(wired, a_turn("second", context_id=first.context_id)))
        await asyncio.sleep(0.5)
        wire.cut()
        heard += [output async for output in running]
    assert answer_text(heard) == words(20)
    assert answer_text(second.result()) == "second"


async def test_a_restart_of_ours_picks_the_run_up(claw: Claw) -> None:
    session = FakeSession()
    turn = a_turn("SLOW 20 100", session=session)
    before = backend_of(claw)
    heard = await until_text(before.start(turn), 3)
    assert words(20).startswith(seen(heard))
    await before.close()
    after = backend_of(claw)
    resumed = a_turn(
        "SLOW 20 100",
        run_id=turn.run_id,
        task_id=turn.task_id,
        context_id=turn.context_id,
        session=session,
        is_resumed=True,
    )
    outputs = await outputs_of(after, resumed)
    # The whole text, so that it does not matter what was told before the restart.
    texts = [output for output in outputs if isinstance(output, Text | TextReplaced)]
    assert isinstance(texts[0], TextReplaced)
    assert answer_text(outputs) == words(20)
    await after.close()


async def test_a_run_that_ended_before_our_restart_is_told_once(claw: Claw) -> None:
    session = FakeSession()
    turn = a_turn("hello again", session=session)
    before = backend_of(claw)
    await outputs_of(before, turn)
    await before.close()
    after = backend_of(claw)
    again = a_turn(
        "hello again",
        run_id=turn.run_id,
        task_id=turn.task_id,
        context_id=turn.context_id,
        session=session,
        is_resumed=True,
    )
    assert answer_text(await outputs_of(after, again)) == "hello again"
    # It did not run again: the session holds the message once.
    connection = await after._link.connection()
    key = after._address.session_of(turn)
    history = await connection.ask("chat.history", {"sessionKey": key})
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
    await after.close()


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, make_claw: MakeClaw) -> Claw:
    """An OpenClaw that the test may kill."""
    made = make_claw(request.param)
    made.start()
    return made


async def test_openclaw_killed_in_the_middle_of_a_turn(own: Claw) -> None:
    backend = backend_of(own)
    outputs = backend.start(a_turn("SLOW 300 100"))
    heard = await until_text(outputs, 2)
    await past_the_start(own)
    await asyncio.to_thread(own.kill)
    await asyncio.to_thread(own.start)
    heard += [output async for output in outputs]
    await backend.close()
    if own.version == OLD:
        # It knows nothing of the run any more, and the turn may have had effects.
        assert heard[-1] == Failed(LOST)
    else:
        # It goes on by itself, under another id, and its answer is that of the task.
        assert isinstance(heard[-1], Final)
        assert "interrupted by a gateway restart" in answer_text(heard)
    own.kill()


async def test_openclaw_restarts_in_order(own: Claw) -> None:
    backend = backend_of(own)
    first = a_turn("SLOW 40 100")
    running = backend.start(first)
    heard = await until_text(running, 2)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(
            outputs_of(backend, a_turn("second", context_id=first.context_id))
        )
        await past_the_start(own)
        own.stop()
        group.create_task(restart(own))
        heard += [output async for output in running]
    await backend.close()
    if own.version == OLD:
        assert heard[-1] == Failed(LOST)
    else:
        # What runs is let finish; what waits begins after the restart.
        assert answer_text(heard) == words(40)
        assert answer_text(waiting.result()) == "second"
    own.kill()


async def restart(claw: Claw) -> None:
    await asyncio.to_thread(claw.wait)
    await asyncio.to_thread(claw.start)
