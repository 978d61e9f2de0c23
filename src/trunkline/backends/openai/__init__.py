"""An agent that is a model behind an OpenAI-compatible server: chat completions.

Pure: `options`, `content` and `conversation` (what the model is told), `wire`, `thoughts` and
`answer` (what it says), `failures`. With I/O: `exchange` (one question), `tool_calls`, `run`
(one turn), `backend`, and `check` for the doctor.
"""

from trunkline.backends.openai.backend import OpenAIBackend
from trunkline.backends.openai.check import check_openai
from trunkline.backends.openai.options import History, Limits, Options, Takes

__all__ = ["History", "Limits", "OpenAIBackend", "Options", "Takes", "check_openai"]
