"""Building blocks of settings: `doc`, `Secret`, `Problem`, and rules that tables share.

They are below `backends`, so that each backend keeps its own settings and rules in its folder;
`trunkline.settings` puts all tables together. Read `secret.py` and `problems.py`, then `urls.py`
and `called_agents.py` (whatever calls other agents).
"""

from typing import Any

from msgspec import Meta


def doc(description: str, **bounds: Any) -> Meta:
    """The description of a key, for the reference, for editors and for errors; `bounds` are those
    of msgspec."""
    return Meta(description=description, **bounds)
