"""The gateway put together from its settings: the only package that names concrete adapters.

`adapters` (settings to stores and backends), `cards` (settings to agent cards and
addresses), `gateway` (all parts as one), `serve` (run it in this process).
"""

from trunkline.app.gateway import Gateway, build, create_app
from trunkline.app.serve import ServeInfo, serve

__all__ = ["Gateway", "ServeInfo", "build", "create_app", "serve"]
