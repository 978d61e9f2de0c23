"""Towards clients: an ASGI application that serves A2A and the gateway's own pages.

The A2A paths are a plain ASGI callable, because a framework's layers cost as much as the
whole call; everything else is Starlette. Read in this order: `http` (reading and
answering), `access` (who calls), `endpoint` (an agent at its addresses), `calls` (what
both bindings share), `jsonrpc`, `rest`, `streams`, `cards`, `application` (the routing),
`operations` (health, metrics). `listener` runs it all in uvicorn.
Imports `runtime`, `protocol`, `ports` and `model`.
"""
