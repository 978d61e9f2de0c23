"""`EchoBackend`: an agent that answers with the message itself."""

from collections.abc import AsyncIterator

from trunkline.model.outputs import Final, Output
from trunkline.ports.backend import TurnRequest


class EchoBackend:
    may_reply_directly = False
    is_pure = True
    can_resume = False

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        # Parts are frozen values, so the answer can hold the very ones of the question.
        return _OneOutput(Final(turn.message.parts))

    async def cancel(self, run_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


class _OneOutput:
    """Cheaper than an async generator, which registers with the loop and must be closed."""

    __slots__ = ("_output",)

    def __init__(self, output: Output) -> None:
        self._output: Output | None = output

    def __aiter__(self) -> "_OneOutput":
        return self

    async def __anext__(self) -> Output:
        output, self._output = self._output, None
        if output is None:
            raise StopAsyncIteration
        return output
