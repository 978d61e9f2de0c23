"""An existing `openclaw.json` as settings.

Read `file.py` (text to document), `accounts.py` (the accounts of the inbound plugin) with
`inbound.py` (accounts to agents), `design.py` (the section `a2a` of the integration design),
`outbound.py` (the targets of the outbound plugin), and `load.py` (all of it, with a TOML file
and flags on top).
"""

from trunkline.settings.openclaw.load import OpenClaw, load_openclaw, load_openclaw_targets

__all__ = ["OpenClaw", "load_openclaw", "load_openclaw_targets"]
