"""The kinds of backend that an agent may have, one module each.

A new kind is a struct here, its rules in `settings/rules/backends/`, and one case in
`app/adapters.py`.
"""

from typing import TypeAlias

from trunkline.settings.backends.a2a import A2aBackend
from trunkline.settings.backends.acp import AcpBackend
from trunkline.settings.backends.command import CommandBackend
from trunkline.settings.backends.local import EchoBackend, PythonBackend, ScriptedBackend
from trunkline.settings.backends.openai import OpenAIBackend
from trunkline.settings.backends.openclaw import OpenClawBackend

__all__ = [
    "RESUMABLE",
    "A2aBackend",
    "AcpBackend",
    "BackendSettings",
    "CommandBackend",
    "EchoBackend",
    "OpenAIBackend",
    "OpenClawBackend",
    "PythonBackend",
    "ScriptedBackend",
]

# Those whose runs go on while the gateway is away.
RESUMABLE = (A2aBackend, OpenClawBackend)

BackendSettings: TypeAlias = (
    EchoBackend
    | PythonBackend
    | ScriptedBackend
    | OpenAIBackend
    | OpenClawBackend
    | A2aBackend
    | CommandBackend
    | AcpBackend
)
