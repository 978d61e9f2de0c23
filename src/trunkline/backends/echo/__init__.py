"""An agent that answers with the message itself, to try things out."""

from trunkline.backends.kind import Adapter, BackendTable, Kind, check_nothing

__all__ = ["KIND"]


class EchoBackend(BackendTable, frozen=True, kw_only=True, tag="echo"):
    """Answers with the message itself."""


def _adapter() -> Adapter[EchoBackend]:
    from trunkline.backends.echo import backend

    return Adapter(lambda settings, resources: backend.EchoBackend(), check_nothing)


KIND = Kind(settings=EchoBackend, adapter=_adapter)
