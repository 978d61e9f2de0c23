"""The kinds of backend: a new one is a folder in `backends` and its lines here."""

from typing import Any, Final, TypeAlias

from trunkline.backends import a2a, acp, command, echo, openai, openclaw, python, scripted
from trunkline.backends.a2a.settings import A2aBackend
from trunkline.backends.acp.settings import AcpBackend
from trunkline.backends.command.settings import CommandBackend
from trunkline.backends.echo import EchoBackend
from trunkline.backends.kind import CallingTable, Kind
from trunkline.backends.openai.settings import OpenAIBackend
from trunkline.backends.openclaw.settings import OpenClawBackend
from trunkline.backends.python.settings import PythonBackend
from trunkline.backends.scripted import ScriptedBackend

# Written out, because mypy cannot read a union that is computed. The order is that of the
# JSON schema and of the reference.
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

_KINDS: Final[tuple[Kind[Any], ...]] = (
    echo.KIND,
    python.KIND,
    scripted.KIND,
    openai.KIND,
    openclaw.KIND,
    a2a.KIND,
    command.KIND,
    acp.KIND,
)
KIND_NAMES: Final = tuple(kind.name for kind in _KINDS)
# Those that take the key `public_only`.
CALLING_KINDS: Final = frozenset(
    kind.name for kind in _KINDS if issubclass(kind.settings, CallingTable)
)
_BY_SETTINGS: Final = {kind.settings: kind for kind in _KINDS}


def kind_of(backend: BackendSettings) -> Kind[Any]:
    return _BY_SETTINGS[type(backend)]
