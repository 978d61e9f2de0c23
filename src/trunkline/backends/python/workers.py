"""Calls an agent's function, in a task or in a thread, and hands over what it says.

Both return the last output instead of handing it over: it may go out only when the
function is really over, its `finally` blocks included.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from trunkline.backends.python.content import Answer, TurnEnd, end_in, outputs_of_result
from trunkline.backends.python.handover import Handover
from trunkline.backends.python.turn import Turn
from trunkline.model.outputs import ENDS_TURN, Output


async def work(fn: Callable[[Turn], Any], turn: Turn, handover: Handover) -> Output | None:
    try:
        result = fn(turn)
        if inspect.isawaitable(result):
            result = await result
        if hasattr(result, "__aiter__"):
            return await _stream(result, turn, handover)
        *outputs, last = outputs_of_result(result)
    except (TurnEnd, BaseExceptionGroup) as error:
        return _output_of_end(error)
    for output in outputs:
        await handover.put(output)
    return last


async def _stream(values: AsyncIterator[object], turn: Turn, handover: Handover) -> Output | None:
    answer = Answer(streams=True)
    try:
        async for value in values:
            # A generator that swallowed its cancellation is closed where it yields.
            if turn.is_canceled:
                return None
            for output in answer.outputs(value):
                if isinstance(output, ENDS_TURN):
                    return output
                await handover.put(output)
    except (TurnEnd, BaseExceptionGroup) as error:
        return answer.completed(_output_of_end(error))
    finally:
        aclose = getattr(values, "aclose", None)
        if aclose is not None:
            await aclose()
    return answer.end()


class Unfinished(Exception):
    """The function made an awaitable or an async iterator, which only the loop can run.

    A coroutine function behind a decorator may look like a plain one.
    """

    def __init__(self, rest: Any) -> None:
        super().__init__()
        self.rest = rest


def work_in_thread(fn: Callable[[Turn], Any], turn: Turn, handover: Handover) -> Output | None:
    """Raises Unfinished."""
    try:
        result = fn(turn)
        if inspect.isawaitable(result) or hasattr(result, "__aiter__"):
            raise Unfinished(result)
        if inspect.isgenerator(result):
            return _stream_in_thread(result, turn, handover)
        *outputs, last = outputs_of_result(result)
    except (TurnEnd, BaseExceptionGroup) as error:
        return _output_of_end(error)
    for output in outputs:
        handover.put_from_thread(output)
    return last


def _stream_in_thread(
    values: Generator[object, Any, object], turn: Turn, handover: Handover
) -> Output | None:
    answer = Answer(streams=True)
    is_over = False
    try:
        while not is_over and not turn.is_canceled:
            try:
                value = next(values)
            except StopIteration as stop:
                value, is_over = stop.value, True
            for output in answer.outputs(value):
                if isinstance(output, ENDS_TURN):
                    return output
                handover.put_from_thread(output)
    except (TurnEnd, BaseExceptionGroup) as error:
        return answer.completed(_output_of_end(error))
    finally:
        values.close()
    return answer.end()


def _output_of_end(error: BaseException) -> Output:
    if (end := end_in(error)) is None:
        raise error
    return end.output
