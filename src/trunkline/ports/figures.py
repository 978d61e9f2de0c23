"""`Measured`: a part of the gateway that counts what it does, for `/metrics`."""

from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

# Name, help text and value. The name of a counter, which never falls, ends in `_total`.
Figure: TypeAlias = tuple[str, str, float]


@runtime_checkable
class Measured(Protocol):
    def figures(self) -> Iterable[Figure]: ...
