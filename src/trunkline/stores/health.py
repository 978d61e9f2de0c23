"""`Health`: whether a store takes changes and, if not, the reason and the remedy."""

import logging
from pathlib import Path

from msgspec import Struct

from trunkline.model.errors import StoreUnusable

_log = logging.getLogger("trunkline.store")


class Problem(Struct, frozen=True):
    """`what` and `remedy` name no file: every client may read them at `/readyz`."""

    # Continues "The store …".
    what: str
    remedy: str
    # The data is gone or damaged, so only a restart on sound files helps. Otherwise the
    # next write that succeeds ends the problem.
    is_lasting: bool = False

    def at(self, name: str | Path) -> StoreUnusable:
        return StoreUnusable(f"The store {name} {self.what}. {self.remedy}")


class Health:
    """Logs once when a problem begins, and once when it is over."""

    def __init__(self, name: str | Path) -> None:
        self._name = name
        self._problem: Problem | None = None
        # The sentence for `/readyz`; None while the store takes changes.
        self.problem: str | None = None
        # Whether the problem is lasting, so the store refuses every change.
        self.is_lost = False

    def failed(self, problem: Problem, *, detail: str = "") -> StoreUnusable:
        """Note the problem. Returns the error for the caller. `detail` goes to the log only."""
        known = self._problem
        if known is None or (problem.is_lasting and not known.is_lasting):
            self._problem = problem
            self.problem = f"The store {problem.what}. {problem.remedy}"
            self.is_lost = problem.is_lasting
            reason = problem.at(self._name).message
            if detail:
                reason = f"{reason} ({detail})"
            _log.error("the store takes no changes", extra={"reason": reason})
        return problem.at(self._name)

    def refusal(self) -> StoreUnusable:
        """The error for a change to a store that is lost."""
        assert self._problem is not None
        return self._problem.at(self._name)

    def wrote(self) -> None:
        """A write succeeded."""
        if self._problem is not None and not self.is_lost:
            self._problem = self.problem = None
            _log.info("the store takes changes again", extra={"store": str(self._name)})


FULL_REMEDY = "Free some space; the gateway continues by itself once it can write again."
WRITE_REMEDY = (
    "Nothing of this change was kept. Look at the free space and the health of the disk; the "
    "gateway continues by itself once it can write again."
)
CHECK_REMEDY = (
    "Stop the gateway, look with `trunkline db check`, restore a backup, and restart the gateway."
)
