"""`Measured`: a part of the gateway that counts what it does, for `/metrics`."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

# Name, help text and value. The name of a counter, which never falls, ends in `_total`.
Figure: TypeAlias = tuple[str, str, float]

BUCKETS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
)


@runtime_checkable
class Measured(Protocol):
    def figures(self) -> Iterable[Figure]: ...


class Durations(Struct, eq=False):
    """How long something took, each time."""

    # How many were within each bound of `BUCKETS_S` and beyond the one before, and how many beyond
    # all of them.
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    count: int = 0
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1


class Labelled(Struct, frozen=True):
    """A counter for each value of a label. The name ends in `_total`."""

    name: str
    text: str
    label: str
    values: Mapping[str, float]


class Timed(Struct, frozen=True):
    name: str
    text: str
    durations: Durations
