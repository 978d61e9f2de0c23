"""Puts a model behind the `Backend` port."""

from collections.abc import Callable

from trunkline.backends.kind import Resources
from trunkline.backends.openai.model_client import ModelClient
from trunkline.backends.openai.options import Options, openai_options
from trunkline.backends.openai.run import Turn
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.backends.turn_task import TurnTaskBackend
from trunkline.clock import chance
from trunkline.ports.backend import TurnRequest
from trunkline.ports.clock import Clock
from trunkline.remote.http import Guard, HttpClient


class OpenAIBackend(TurnTaskBackend[Turn]):
    """An agent that is a model with an OpenAI-compatible server."""

    def __init__(
        self, options: Options, *, clock: Clock, chance: Callable[[], float] = chance
    ) -> None:
        super().__init__("openai")
        self._options = options
        self._http = HttpClient(Guard.of(options.base_url))
        self._client = ModelClient(options, self._http, clock, chance)

    def turn_task(self, turn: TurnRequest) -> Turn:
        return Turn(turn, self.tasks, self._options, self._client)

    async def close(self) -> None:
        await super().close()
        for tool in self._options.tools:
            await tool.close()
        await self._http.close()


def make(settings: OpenAISettings, resources: Resources) -> OpenAIBackend:
    return OpenAIBackend(openai_options(settings, resources.tools), clock=resources.clock)
