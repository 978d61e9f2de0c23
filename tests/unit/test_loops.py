"""The event loops of the tests refuse what would be a race."""

import asyncio
from collections.abc import Callable

import pytest
from tests.loops import ASYNCIO, UVLOOP


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.call_soon(print),
        lambda loop: loop.call_later(9, print),
        lambda loop: loop.call_at(9, print),
    ],
    ids=["call_soon", "call_later", "call_at"],
)
@pytest.mark.parametrize("make", (UVLOOP | ASYNCIO).values(), ids=UVLOOP | ASYNCIO)
def test_a_call_from_another_thread_is_refused(
    make: Callable[[], asyncio.AbstractEventLoop],
    call: Callable[[asyncio.AbstractEventLoop], asyncio.Handle],
) -> None:
    async def from_another_thread() -> None:
        loop = asyncio.get_running_loop()
        call(loop).cancel()
        with pytest.raises(RuntimeError, match="a thread that does not run"):
            await asyncio.to_thread(call, loop)

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(from_another_thread())


async def test_tests_run_on_such_a_loop() -> None:
    assert type(asyncio.get_running_loop()) in ASYNCIO.values()
