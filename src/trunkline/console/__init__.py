"""The page of the gateway, and the routes below `/api/v1` that show what happens.

`page` serves it and keeps its sessions, `tasks`, `live`, `wire` and `recordings` have a folder
each, and `checks_api` judges messages. The page in `static/` is a client of these routes like any
other. All of it meets the server, the runtime and the hub in `ports`; `app` connects them.
"""
