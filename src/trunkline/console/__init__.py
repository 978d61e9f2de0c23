"""The page of the gateway: its files, its sessions and the routes that it alone uses.

`pages.py` serves `/` and `/console/...`, `sessions.py` keeps the sessions of browsers, and
`session_api.py` and `gateway_api.py` have routes below `/api/v1`. The page itself is in `static/`;
it uses the HTTP interface of the gateway like any other client.
"""
