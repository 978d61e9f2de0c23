"""Agents that speak the Agent Client Protocol over standard input and output.

Read in this order: `rpc` (what a line means), `updates` (what an agent reports, as outputs),
`permission` (a question, and the answer to it), `content` (a message for the agent), all
without I/O; then `link` (requests and answers on one process), `conversation` (one session on
it), `run` (one turn), `backend`, `checking` (for the operator).
"""

from trunkline.backends.acp.backend import AcpBackend
from trunkline.backends.acp.checking import check_acp
from trunkline.backends.acp.conversation import AcpOptions

__all__ = ["AcpBackend", "AcpOptions", "check_acp"]
