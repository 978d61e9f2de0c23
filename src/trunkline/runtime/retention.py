"""Forgetting ended tasks by age, by number, or both, and by age the answers without a task."""

from trunkline.model.profile import Profile
from trunkline.ports.store import Store

# Small steps: one holds the writer for a few milliseconds.
STEP = 200


def forgets(profile: Profile) -> bool:
    return bool(profile.retention_s or profile.retention_max_tasks)


async def count_prunable(
    store: Store, agent: str, *, before_ms: int | None, keep: int | None
) -> int:
    """How many tasks `prune` would delete."""
    old = 0 if before_ms is None else await store.count_ended(agent, before_ms=before_ms)
    many = 0 if keep is None else await store.count_ended(agent) - keep
    # Either bound takes the longest ended ones, so the larger number includes the other.
    return max(old, many)


async def prune(store: Store, agent: str, *, before_ms: int | None, keep: int | None) -> int:
    """Delete what ended before, and what is more than to be kept, in steps that let traffic
    through. Exchanges count for nothing but their age. Returns how many tasks went."""
    gone = 0
    if before_ms is not None:
        while await store.forget_exchanges(agent, before_ms=before_ms, limit=STEP):
            pass
        while step := await store.prune(agent, limit=STEP, before_ms=before_ms):
            gone += step
    if keep is not None:
        excess = await store.count_ended(agent) - keep
        while excess > 0 and (step := await store.prune(agent, limit=min(STEP, excess))):
            excess -= step
            gone += step
    return gone
