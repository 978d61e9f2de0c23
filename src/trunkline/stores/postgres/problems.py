"""Errors of the database, sorted by what they mean for the store."""

from collections.abc import Sequence

from trunkline.model.errors import StoreError, StoreUnusable, Unstorable
from trunkline.stores.health import FULL_REMEDY, Problem
from trunkline.stores.postgres.connection import DatabaseError
from trunkline.stores.postgres.database import REMEDY, UNDONE

UNREACHABLE = Problem("cannot reach its database", REMEDY)
SILENT = Problem("gets no answer from its database", REMEDY)
SLOW = Problem("has waited for its database for some seconds", REMEDY)
_FULL = Problem("has no space left in its database", FULL_REMEDY)
_REFUSED = Problem(
    "was refused by its database",
    "Look at the log of the database, and run `trunkline db check`; the gateway continues by "
    "itself once the database takes changes.",
)

# Data that does not fit, a limit of the server, a key that exists, a value that was swept.
_OF_ONE_ITEM = ("22", "54", "23505", "TL")
# The server became a standby; the connection leads to the wrong one.
READ_ONLY = "25006"


def is_of_one_item(error: DatabaseError) -> bool:
    """Whether one of the changes is at fault, whatever else is in the same batch."""
    return error.sqlstate.startswith(_OF_ONE_ITEM)


def is_undone(error: DatabaseError) -> bool:
    return error.sqlstate in UNDONE


def problem_of(error: DatabaseError) -> Problem:
    return _FULL if error.sqlstate == "53100" else _REFUSED


def unstorable(name: object, error: DatabaseError) -> StoreError:
    return Unstorable(f"The store {name} refused a change ({error.sqlstate}): {error}")


def unsafe(name: object, settings: Sequence[str]) -> StoreUnusable:
    return StoreUnusable(
        f"The store {name} may lose what it acknowledged: its server has {', '.join(settings)} "
        "switched off. Switch it on, in postgresql.conf or for the user and the database."
    )


def wrong_isolation(name: object, level: str) -> StoreUnusable:
    return StoreUnusable(
        f"The store {name} runs transactions as {level!r}, in which due work could be lost. "
        "Set default_transaction_isolation to 'read committed' for the user or the database."
    )
