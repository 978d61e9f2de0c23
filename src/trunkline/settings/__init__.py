"""Settings: one frozen object that says what this gateway is.

Knows the shape, the rules and the file; never an adapter. Read `root.py`, `server.py`,
`agents.py`, `backends/` and `outbound.py` (the keys), `load.py` (the file), `decode.py` (a
document into structs), `rules/` (what must hold between keys), `publish.py` (the agents that
Python targets hold).
"""

from trunkline.backends.python.settings import split_target
from trunkline.config.called_agents import (
    ApiKeyCredentials,
    BearerCredentials,
    CredentialSettings,
    OAuth2Credentials,
)
from trunkline.config.problems import InvalidSettings, Problem
from trunkline.config.secret import Secret
from trunkline.settings.agents import (
    AgentSettings,
    ExtendedCardSettings,
    ExtensionSettings,
    ProviderSettings,
    SkillSettings,
)
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
from trunkline.settings.load import check, demo, for_target, from_document, load
from trunkline.settings.outbound import RemoteSettings, TargetSettings
from trunkline.settings.paths import data_dir, database_path, handles_path, make_private_dir
from trunkline.settings.publish import handle_of, publish, stands_for_many
from trunkline.settings.root import Settings
from trunkline.settings.schema import schema
from trunkline.settings.server import ApiKey, AuthSettings, ServerSettings, StoreSettings
from trunkline.settings.show import effective
from trunkline.settings.target import EVERY, slug

__all__ = [
    "EVERY",
    "A2aBackend",
    "AcpBackend",
    "AgentSettings",
    "ApiKey",
    "ApiKeyCredentials",
    "AuthSettings",
    "BackendSettings",
    "BearerCredentials",
    "CommandBackend",
    "CredentialSettings",
    "EchoBackend",
    "ExtendedCardSettings",
    "ExtensionSettings",
    "InvalidSettings",
    "OAuth2Credentials",
    "OpenAIBackend",
    "OpenClawBackend",
    "Problem",
    "ProviderSettings",
    "PythonBackend",
    "RemoteSettings",
    "ScriptedBackend",
    "Secret",
    "ServerSettings",
    "Settings",
    "SkillSettings",
    "StoreSettings",
    "TargetSettings",
    "check",
    "data_dir",
    "database_path",
    "demo",
    "effective",
    "for_target",
    "from_document",
    "handle_of",
    "handles_path",
    "load",
    "make_private_dir",
    "publish",
    "schema",
    "slug",
    "split_target",
    "stands_for_many",
]
