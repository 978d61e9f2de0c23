"""OpenClaw behind the gateway.

What bytes mean and what to decide, without I/O: `frames`, `hello`, `prompt`, `session_key`,
`questions`, `fold` (events to outputs), `recovery` (what became of a run). Around it: `device`
(the key), `connection` (one socket), `link` (the shared connection), `agents` (what OpenClaw
has), `notes` (what outlives us), `exchange` (what is said about a run), `run` (one turn),
`backend`, and the same over HTTP: `web` and `completions`.
"""

from trunkline.backends.openclaw.backend import Address, OpenClawBackend
from trunkline.backends.openclaw.times import Times

__all__ = ["Address", "OpenClawBackend", "Times"]
