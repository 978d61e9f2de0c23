"""`join_call_path`: a command that an agent runs belongs to the call that the agent answers."""

import os

from trunkline.model.errors import ConfigError
from trunkline.ports.call_path import CALL_PATH, CallPath
from trunkline.protocol import call_chain


def join_call_path() -> None:
    """Send the chain of the call along with what the command asks other agents. Raises ConfigError
    where the agent may not call others."""
    if os.environ.get(call_chain.ISOLATED) == "1":
        raise ConfigError(
            "this agent is isolated: it may not call other agents while it answers a request. Set "
            "isolated = false for it if it should."
        )
    if chain := os.environ.get(call_chain.VARIABLE):
        CALL_PATH.set(CallPath(call_chain.decode(chain)))
