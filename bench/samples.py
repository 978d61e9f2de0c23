"""What a run found: every sample, and the median with its spread."""

from dataclasses import dataclass, field
from statistics import median

from bench.figures import Figures


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float


@dataclass(slots=True)
class Cell:
    """One case on one server, over the rounds."""

    samples: list[Figures] = field(default_factory=list)
    # Why there is no figure, or why the figures are not to be trusted.
    problem: str | None = None

    def spread(self, key: str) -> Spread | None:
        values = [sample[key] for sample in self.samples if key in sample]
        return Spread(median(values), min(values), max(values)) if values else None


class Results:
    def __init__(self) -> None:
        self._cells: dict[tuple[str, str], Cell] = {}

    def cell(self, case: str, server: str) -> Cell:
        return self._cells.setdefault((case, server), Cell())

    def known(self, case: str, server: str) -> Cell | None:
        return self._cells.get((case, server))

    def median(self, case: str, server: str, key: str) -> float | None:
        cell = self.known(case, server)
        spread = cell.spread(key) if cell else None
        return spread.median if spread else None

    def problems(self) -> list[str]:
        return [
            f"{case} on {server}: {cell.problem}"
            for (case, server), cell in self._cells.items()
            if cell.problem
        ]
