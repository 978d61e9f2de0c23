"""The hub: published agents, credentials, limits and audit, all kept as records of the main store.

It is a feature beside the server and meets it only in `ports`. `app/hub.py` connects the two.
"""
