"""Which session a turn belongs to, for programs that keep their own."""

import json
import uuid
from asyncio import Lock
from weakref import WeakValueDictionary

from trunkline.ports.backend import TurnRequest

# Any fixed value does: it makes our names differ from those that others derive.
NAMESPACE = uuid.UUID("5f2b7c1e-95a0-5d0c-9a35-6f0d0e8f6a11")


def session_id(turn: TurnRequest) -> str:
    """The same for every turn of the session and after every restart. The principal is part
    of it, so nobody gets into the session of another by naming its context."""
    scope = [turn.agent, turn.tenant, turn.principal, turn.context_id]
    return str(uuid.uuid5(NAMESPACE, json.dumps(scope)))


class Sessions:
    """One turn of a session at a time, also where the profile lets tasks run side by side."""

    def __init__(self) -> None:
        # Weak: a lock is there for as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def lock(self, session: str) -> Lock:
        lock = self._locks.get(session)
        if lock is None:
            lock = self._locks[session] = Lock()
        return lock
