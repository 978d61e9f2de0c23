"""Settings: the configuration of a gateway as one frozen object.

Each table has its struct and its rules in one file: `server.py`, `auth.py`, `stores.py`,
`agents.py` with `agent_card.py` and `profiles.py`, `backends.py`, `targets.py`. `root.py` puts
them together, and `rules.py` checks what must hold between tables.

A file passes through `load.py` (TOML), `environment.py` (`${NAME}`) and `decode.py` (a document
into structs). `changes.py` compares a file that was read again with the settings in force.
`show.py` prints settings and describes the file to editors, `openclaw/` reads an
`openclaw.json`. Nothing here imports the code of an adapter.
"""

from trunkline.config.problems import InvalidSettings
from trunkline.settings.agents import AgentSettings
from trunkline.settings.load import demo, for_target, from_document, load
from trunkline.settings.root import Settings
from trunkline.settings.show import effective, schema
from trunkline.settings.stores import StoreSettings

__all__ = [
    "AgentSettings",
    "InvalidSettings",
    "Settings",
    "StoreSettings",
    "demo",
    "effective",
    "for_target",
    "from_document",
    "load",
    "schema",
]
