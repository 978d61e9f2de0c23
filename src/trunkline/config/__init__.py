"""Building blocks of settings: `doc`, `Secret`, `Problem`, and rules that tables share.

They are below `backends`, so that each backend keeps its own settings and rules in its folder;
`trunkline.settings` puts all tables together. Read `secret.py` and `problems.py`, then `urls.py`
and `called_agents.py` (whatever calls other agents).
"""

from trunkline.model.profile import doc

__all__ = ["doc"]
