"""An agent that follows the commands in the message, for tests of clients.

Read `script` (the commands and their outputs), then `backend` with the gates by which a test
decides the order. `trunkline.testing` exports it.
"""

from typing import Annotated

from trunkline.backends.kind import Adapter, BackendTable, Kind, check_nothing
from trunkline.config import doc

__all__ = ["KIND"]


class ScriptedBackend(BackendTable, frozen=True, kw_only=True, tag="scripted"):
    """Follows the commands in the message, for tests of clients."""

    turn_log: Annotated[
        str,
        doc(
            "File to which the agent appends a line for each turn that it runs: the task id, the "
            "message id and the run id. Empty: none."
        ),
    ] = ""


def _adapter() -> Adapter[ScriptedBackend]:
    from trunkline.backends.scripted import backend

    return Adapter(
        lambda settings, resources: backend.ScriptedBackend(
            clock=resources.clock, turn_log=settings.turn_log
        ),
        check_nothing,
    )


KIND = Kind(settings=ScriptedBackend, adapter=_adapter)
