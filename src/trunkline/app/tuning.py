"""What suits a process that does nothing but serve."""

import gc
import sys

# Objects that a collection waits for. Requests leave few circles behind, so that looking
# for them after every 700 took one part in twenty of the CPU; this many are a few MB.
_YOUNG_OBJECTS = 20_000


def settle_in() -> None:
    """Once, on the running loop, when all is loaded that stays."""
    # Modules and settings live as long as the process; nobody needs to look at them again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
    # The loop would list every async generator, to close those that are left at its end.
    # Turns have ended by then, and close theirs.
    sys.set_asyncgen_hooks(firstiter=None)
