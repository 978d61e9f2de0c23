"""`HeldPrincipals`: the callers of foreign credentials that were used last, with their grants."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from trunkline.hub.grants import Grants
from trunkline.model.principal import Principal
from trunkline.ports.clock import Clock
from trunkline.runtime.record_changes import RecordChanges

MAX_HELD: Final = 10_000


class _Held(Struct, frozen=True):
    principal: Principal
    ends_ms: float


class HeldPrincipals:
    """Bounded; a principal whose grants change is forgotten."""

    def __init__(
        self, changes: RecordChanges, grants: Grants, *, clock: Clock, max_held: int = MAX_HELD
    ) -> None:
        self._changes = changes
        self._grants = grants
        self._clock = clock
        self._max_held = max_held
        self._held: OrderedDict[str, _Held] = OrderedDict()
        # Rises with every change, so that grants read before it are not held.
        self._generation = 0
        grants.on_change(self._grants_changed)

    def find(self, digest: str) -> Principal | None:
        """The principal of a credential, while memory may be trusted."""
        held = self._held.get(digest)
        if held is None or not self._changes.is_fresh or self._clock.now_ms() >= held.ends_ms:
            return None
        self._held.move_to_end(digest)
        return held.principal

    async def hold(self, digest: str, principal: Principal, *, ends_ms: float) -> Principal:
        """The principal with its grants. Raises StoreError."""
        generation = self._generation
        granted = await self._grants.of(principal.id)
        whole = replace(principal, grants=(*principal.grants, *granted))
        if generation == self._generation:
            self._held.pop(digest, None)
            self._held[digest] = _Held(whole, ends_ms)
            if len(self._held) > self._max_held:
                self._held.popitem(last=False)
        return whole

    def _grants_changed(self, principals: Sequence[str] | None) -> None:
        self._generation += 1
        changed = None if principals is None else frozenset(principals)
        for digest, held in [*self._held.items()]:
            if changed is None or held.principal.id in changed:
                del self._held[digest]
