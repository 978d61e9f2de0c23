"""The gateway put together from its settings: the only package that names concrete adapters.

`adapters` (settings to stores and backends), `cards` (settings to agent cards and
addresses), `gateway` (all parts as one), `process` (run it in this process), `outbound`
(settings to the agents that are called).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.app.gateway import Gateway, build, create_app
    from trunkline.app.process import ServeInfo, serve

__all__ = ["Gateway", "ServeInfo", "build", "create_app", "serve"]

_HOMES = {
    "Gateway": "trunkline.app.gateway",
    "ServeInfo": "trunkline.app.process",
    "build": "trunkline.app.gateway",
    "create_app": "trunkline.app.gateway",
    "serve": "trunkline.app.process",
}


def __getattr__(name: str) -> object:
    # Commands that call other agents need `outbound` alone, not the whole gateway.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
