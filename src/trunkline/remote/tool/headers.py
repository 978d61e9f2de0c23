"""Which headers go to which target."""

from collections.abc import Mapping

from trunkline.remote.peer import Target
from trunkline.remote.tool.config import ToolConfig
from trunkline.remote.tool.resolve import is_configured


def headers_for(target: Target, config: ToolConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Defaults, then the target's own, then those of the request; names know no case.

    Defaults may be keys, and are meant for the agents in the configuration: a URL that came
    with a request gets only what came with it.
    """
    layers: list[Mapping[str, str]] = [given]
    if is_configured(target, config):
        layers = [config.defaults.service_parameters, target.headers, given]
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = (name, value)
    return dict(merged.values())
