"""Forgetting ended tasks by age, by number, or both, and by age all else that is kept."""

from msgspec import Struct

from trunkline.model.profile import Profile
from trunkline.ports.store import Store

# Small steps: one holds the writer for a few milliseconds.
STEP = 200


class Gone(Struct, frozen=True):
    """How many of each are deleted, or would be."""

    tasks: int = 0
    # Answers that made no task.
    exchanges: int = 0


def forgets(profile: Profile) -> bool:
    return bool(profile.retention_s or profile.retention_max_tasks)


async def count_prunable(
    store: Store, agent: str, *, before_ms: int | None, keep: int | None
) -> Gone:
    """What `prune` would delete."""
    old = exchanges = 0
    if before_ms is not None:
        old = await store.count_ended(agent, before_ms=before_ms)
        exchanges = await store.count_exchanges(agent, before_ms=before_ms)
    many = 0 if keep is None else await store.count_ended(agent) - keep
    # Either bound takes the longest ended ones, so the larger number includes the other.
    return Gone(max(old, many), exchanges)


async def prune(store: Store, agent: str, *, before_ms: int | None, keep: int | None) -> Gone:
    """Delete what ended before, and what is more than to be kept, in steps that let traffic
    through. Exchanges and notes count for nothing but their age."""
    gone = exchanges = 0
    if before_ms is not None:
        while step := await store.forget_exchanges(agent, before_ms=before_ms, limit=STEP):
            exchanges += step
        while await store.forget_notes(agent, before_ms=before_ms, limit=STEP):
            pass
        while step := await store.prune(agent, limit=STEP, before_ms=before_ms):
            gone += step
    if keep is not None:
        excess = await store.count_ended(agent) - keep
        while excess > 0 and (step := await store.prune(agent, limit=min(STEP, excess))):
            excess -= step
            gone += step
    return Gone(gone, exchanges)
