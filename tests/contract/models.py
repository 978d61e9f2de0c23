"""A backend together with the fake model that it asks."""

from trunkline.backends.openai.backend import OpenAIBackend
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.clock import SystemClock
from trunkline.testing.fake_model import FakeModel


class ModelAndBackend(OpenAIBackend):
    """Closes its model, too."""

    def __init__(self, model: FakeModel, *, stream: bool) -> None:
        settings = OpenAISettings(base_url=f"{model.url}/v1", model="fake-1", stream=stream)
        super().__init__(settings, clock=SystemClock())
        self._model = model

    async def close(self) -> None:
        await super().close()
        await self._model.close()


async def streaming() -> OpenAIBackend:
    model = FakeModel()
    await model.start()
    return ModelAndBackend(model, stream=True)


async def whole() -> OpenAIBackend:
    model = FakeModel()
    await model.start()
    return ModelAndBackend(model, stream=False)
