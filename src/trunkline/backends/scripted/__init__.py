"""An agent that follows the commands in the message, for tests of clients.

Read `script` (the commands and their outputs), then `backend` with the gates by which a test
decides the order. `recording` plays a recorded task instead. `trunkline.testing` exports it.
"""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Struct

from trunkline.backends.kind import Adapter, BackendTable, Kind, check_nothing
from trunkline.config import doc
from trunkline.config.problems import Path, Problem

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
    recording: Annotated[
        str,
        doc(
            "The JSON of a recorded task. The agent plays it for every message, whatever that "
            "says. `POST /api/v1/recordings` writes it. Empty: the agent follows commands."
        ),
    ] = ""


def _rules(settings: Struct, path: Path) -> Iterable[Problem]:
    from trunkline.backends.scripted.recording import problems

    assert isinstance(settings, ScriptedBackend)
    return problems(settings.recording, path)


def _adapter() -> Adapter[ScriptedBackend]:
    from trunkline.backends.scripted import backend
    from trunkline.backends.scripted.recording import recording_of

    return Adapter(
        lambda settings, resources: backend.ScriptedBackend(
            clock=resources.clock,
            turn_log=settings.turn_log,
            recording=recording_of(settings.recording),
        ),
        check_nothing,
    )


KIND = Kind(settings=ScriptedBackend, rules=_rules, adapter=_adapter)
