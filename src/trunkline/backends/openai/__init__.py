"""An agent that is a model behind an OpenAI-compatible server: chat completions.

Pure: `conversation` (the messages for the model), `wire` and `answer` (its words), `failures`.
With I/O: `model_client` (one question), `tool_calls`, `backend` (with the turns) and `doctor`.
"""

from trunkline.backends.kind import Adapter, Kind
from trunkline.backends.openai.rules import openai_problems
from trunkline.backends.openai.settings import OpenAIBackend

__all__ = ["KIND"]


def _adapter() -> Adapter[OpenAIBackend]:
    from trunkline.backends.openai.backend import make
    from trunkline.backends.openai.doctor import check

    return Adapter(make, check)


KIND = Kind(settings=OpenAIBackend, rules=openai_problems, adapter=_adapter)
