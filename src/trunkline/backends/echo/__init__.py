"""An agent that answers with the message itself, to try things out."""

from msgspec import Struct

from trunkline.backends.kind import Adapter, Kind, check_nothing

__all__ = ["KIND"]


class EchoBackend(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="echo"
):
    """Answers with the message itself."""


def _adapter() -> Adapter[EchoBackend]:
    from trunkline.backends.echo import backend

    return Adapter(lambda settings, resources: backend.EchoBackend(), check_nothing)


KIND = Kind(settings=EchoBackend, adapter=_adapter)
