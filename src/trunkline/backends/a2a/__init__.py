"""Another A2A agent as a backend: the gateway owns the task, the upstream has its own.

Read `notes` (what is kept of an upstream task, and what a restart makes of it), `asking` (the
message as the upstream gets it), `copying` (what its events become), `failing` (what the caller
is told when a call fails), then `run` (one turn) with `keeping`, `insisting` and `pipe`,
`cards` (the upstream's card, kept fresh), `backend` and `check`.
"""

from trunkline.backends.a2a.backend import A2aBackend
from trunkline.backends.a2a.cards import UpstreamCard
from trunkline.backends.a2a.check import check_a2a
from trunkline.backends.a2a.upstream import Reach, Upstream

__all__ = ["A2aBackend", "Reach", "Upstream", "UpstreamCard", "check_a2a"]
