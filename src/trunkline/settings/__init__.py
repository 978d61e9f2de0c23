"""Settings: one frozen object that says what this gateway is.

Knows the shape, the rules and the file; never an adapter. Read `root.py`, `server.py` and
`agents.py` (the keys), `decode.py` (a document into structs), `rules/` (what must hold
between keys), `load.py` (the file and the environment).
"""

from trunkline.settings.agents import (
    AgentSettings,
    BackendSettings,
    EchoBackend,
    ExtendedCardSettings,
    ExtensionSettings,
    Found,
    ProviderSettings,
    PythonBackend,
    ScriptedBackend,
    SkillSettings,
)
from trunkline.settings.root import Settings
from trunkline.settings.secret import Secret
from trunkline.settings.server import ApiKey, AuthSettings, ServerSettings, StoreSettings

__all__ = [
    "AgentSettings",
    "ApiKey",
    "AuthSettings",
    "BackendSettings",
    "EchoBackend",
    "ExtendedCardSettings",
    "ExtensionSettings",
    "Found",
    "ProviderSettings",
    "PythonBackend",
    "ScriptedBackend",
    "Secret",
    "ServerSettings",
    "Settings",
    "SkillSettings",
    "StoreSettings",
]
