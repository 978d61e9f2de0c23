"""Rules of each kind of backend, one module each."""

from collections.abc import Iterator

from trunkline.config.problems import Path, Problem
from trunkline.settings.backends import (
    A2aBackend,
    AcpBackend,
    BackendSettings,
    CommandBackend,
    EchoBackend,
    OpenAIBackend,
    OpenClawBackend,
    PythonBackend,
    ScriptedBackend,
)
from trunkline.settings.rules.backends.a2a import a2a_problems
from trunkline.settings.rules.backends.command import command_problems
from trunkline.settings.rules.backends.openai import openai_problems
from trunkline.settings.rules.backends.openclaw import openclaw_problems
from trunkline.settings.rules.backends.program import program_problems
from trunkline.settings.rules.backends.python import python_problems

__all__ = ["backend_problems"]


def backend_problems(backend: BackendSettings, path: Path) -> Iterator[Problem]:
    """`path` is that of the backend's own table."""
    match backend:
        case PythonBackend():
            yield from python_problems(backend, path)
        case CommandBackend():
            yield from command_problems(backend, path)
        case AcpBackend():
            yield from program_problems(backend, path)
        case OpenAIBackend():
            yield from openai_problems(backend, path)
        case A2aBackend():
            yield from a2a_problems(backend, path)
        case OpenClawBackend():
            yield from openclaw_problems(backend, path)
        case EchoBackend() | ScriptedBackend():
            return
