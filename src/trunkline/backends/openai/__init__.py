"""An agent that is a model behind an OpenAI-compatible server: chat completions.

Pure: `options` and `conversation` (what the model is told), `wire` and
`answer` (what it says), `failures`. With I/O: `model_client` (one question), `tool_calls`, `run`
(one turn), `backend`, and `doctor`.
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
