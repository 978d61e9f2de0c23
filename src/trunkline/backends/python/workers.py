"""Calls an agent's function, in a task or in a thread, and hands over what it says."""

import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from trunkline.backends.python.content import Answer, TurnEnd, end_in, outputs_of_result
from trunkline.backends.python.handover import Handover
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import ENDS_TURN, Output


async def work(fn: Callable[[Turn], Any], turn: Turn, handover: Handover) -> None:
    try:
        result = fn(turn)
        if inspect.isawaitable(result):
            result = await result
        if hasattr(result, "__aiter__"):
            await _stream(result, turn, handover)
            return
        outputs = outputs_of_result(result)
    except (TurnEnd, BaseExceptionGroup) as error:
        if (end := end_in(error)) is None:
            raise
        outputs = [end.output]
    for output in outputs:
        await handover.put(output)


async def _stream(values: AsyncIterator[object], turn: Turn, handover: Handover) -> None:
    answer = Answer(streams=True)
    ending: Output | None = None
    try:
        async for value in values:
            # A generator that swallowed its cancellation is closed where it yields.
            if turn.is_canceled:
                return
            for output in answer.outputs(value):
                if isinstance(output, ENDS_TURN):
                    ending = output
                else:
                    await handover.put(output)
            if ending is not None:
                break
    except (TurnEnd, BaseExceptionGroup) as error:
        if (end := end_in(error)) is None:
            raise
        ending = answer.outputs(end)[0]
    finally:
        aclose = getattr(values, "aclose", None)
        if aclose is not None:
            await aclose()
    # Only now: a turn is over when the agent's `finally` blocks have run.
    if ending is None:
        ending = answer.end()
    if ending is not None:
        await handover.put(ending)


def work_in_thread(fn: Callable[[Turn], Any], turn: Turn, handover: Handover) -> Any:
    """Returns the awaitable or async iterator that the function made, if it made one.

    A decorated coroutine function may look like a plain one; only the loop can finish it.
    """
    try:
        result = fn(turn)
        if inspect.isawaitable(result) or hasattr(result, "__aiter__"):
            return result
        if inspect.isgenerator(result):
            _stream_in_thread(result, turn, handover)
            return None
        outputs = outputs_of_result(result)
    except (TurnEnd, BaseExceptionGroup) as error:
        if (end := end_in(error)) is None:
            raise
        outputs = [end.output]
    for output in outputs:
        handover.put_from_thread(output)
    return None


def _stream_in_thread(
    values: Generator[object, Any, object], turn: Turn, handover: Handover
) -> None:
    answer = Answer(streams=True)
    ending: Output | None = None
    try:
        while ending is None and not turn.is_canceled:
            try:
                value, is_last = next(values), False
            except StopIteration as stop:
                value, is_last = stop.value, True
            for output in answer.outputs(value):
                if isinstance(output, ENDS_TURN):
                    ending = output
                else:
                    handover.put_from_thread(output)
            if is_last:
                ending = ending or answer.end()
                break
    except (TurnEnd, BaseExceptionGroup) as error:
        if (end := end_in(error)) is None:
            raise
        ending = answer.outputs(end)[0]
    finally:
        values.close()
    if ending is not None:
        handover.put_from_thread(ending)
