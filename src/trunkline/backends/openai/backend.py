"""Puts a model behind the `Backend` port."""

from collections.abc import AsyncIterator, Callable
from weakref import WeakValueDictionary

from trunkline.backends.asked import Asked, Emit
from trunkline.backends.kind import Resources
from trunkline.backends.openai.exchange import Exchange
from trunkline.backends.openai.options import Options, openai_options
from trunkline.backends.openai.run import Turn
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.clock import chance
from trunkline.model.outputs import Output
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.remote.http import Guard, HttpClient


class OpenAIBackend:
    """An agent that is a model with an OpenAI-compatible server."""

    may_reply_directly = False
    is_pure = False
    # The server forgets a request with its connection.
    can_resume = False

    def __init__(
        self, options: Options, *, clock: Clock, chance: Callable[[], float] = chance
    ) -> None:
        self._options = options
        self._http = HttpClient(Guard.of(options.base_url))
        self._exchange = Exchange(options, self._http, clock, chance)
        # Weak, because an iterator that nobody ever looks at has no end that would tell us.
        self._runs: WeakValueDictionary[str, Asked] = WeakValueDictionary()

    def start(self, turn: TurnRequest) -> AsyncIterator[Output]:
        async def work(emit: Emit) -> None:
            await Turn(turn, self._options, self._exchange, emit).run()

        run = self._runs[turn.run_id] = Asked(f"model {turn.run_id}", work)
        return run.outputs()

    async def cancel(self, run_id: str) -> None:
        if (run := self._runs.get(run_id)) is not None:
            run.cancel()

    async def close(self) -> None:
        runs = tuple(self._runs.values())
        for run in runs:
            run.cancel()
        for run in runs:
            await run.ended()
        for tool in self._options.tools:
            await tool.close()
        await self._http.close()


def make(settings: OpenAISettings, resources: Resources) -> OpenAIBackend:
    return OpenAIBackend(openai_options(settings, resources.tools), clock=resources.clock)
