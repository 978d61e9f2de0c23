"""`Link`: requests and answers of the Agent Client Protocol on one process."""

from itertools import count
from typing import Any

from trunkline.backends.acp import rpc
from trunkline.backends.json_values import table
from trunkline.backends.programs.child import Child


class LinkLost(Exception):
    """The process ended, or closed its output."""


class CallFailed(Exception):
    """The agent answered with an error; the text is for the operator."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Link:
    """One side of the protocol. Whoever waits for something reads; nobody else does."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._ids = count(1)

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Ask something; the id is that of its answer."""
        call_id = next(self._ids)
        self.child.write(rpc.line(id=call_id, method=method, params=params))
        return call_id

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.child.write(rpc.line(method=method, params=params))

    def answer(self, call_id: str | int, result: Any) -> None:
        self.child.write(rpc.line(id=call_id, result=result))

    def refuse(self, request: rpc.Request) -> None:
        message = f"{request.method} is not offered by this client"
        error = {"code": rpc.METHOD_NOT_FOUND, "message": message}
        self.child.write(rpc.line(id=request.id, error=error))

    async def receive(self) -> rpc.Incoming:
        """The next message. Raises LinkLost, Flooded and LineTooLong."""
        while (line := await self.child.line()) is not None:
            if (message := rpc.read(line)) is not None:
                return message
        raise LinkLost

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask, and wait for the answer; what comes before it is passed over.
        Raises CallFailed and what `receive` raises."""
        call_id = self.send(method, params)
        while True:
            message = await self.receive()
            if isinstance(message, rpc.Request):
                if (message.id, message.method) == (call_id, method):
                    raise CallFailed(0, "it says back what it is told")
                self.refuse(message)
            elif isinstance(message, rpc.Response) and message.id == call_id:
                return table(result_of(message))


def result_of(response: rpc.Response) -> Any:
    """Raises CallFailed."""
    if response.error_code is not None:
        raise CallFailed(response.error_code, response.error_message)
    return response.result
