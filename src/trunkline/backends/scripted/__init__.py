"""An agent that follows the commands in the message, for tests of clients.

Read `script` (the commands), `outputs` (what each says), then `backend` with the
gates by which a test decides the order. `trunkline.testing` exports it.
"""

from typing import Annotated

from msgspec import Meta, Struct

from trunkline.backends.kind import Adapter, Kind, check_nothing

__all__ = ["KIND"]


class ScriptedBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="scripted"
):
    """Follows the commands in the message, for tests of clients."""

    turn_log: Annotated[
        str,
        Meta(
            description="File to which the agent appends a line for each turn that it runs: the "
            "task id, the message id and the run id. Empty: none."
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
