"""Building blocks of settings: `Secret`, `Problem`, credentials, and rules that tables share.

They are below `backends`, so that each backend keeps its own settings and rules in its folder;
`trunkline.settings` puts all tables together. Read `secret.py` and `problems.py`, then
`called_agents.py` with `credentials.py` and `urls.py` (whatever calls other agents).
"""
