"""Towards clients: an ASGI application that serves A2A and the gateway's own pages.

The A2A paths are a plain ASGI callable, because a framework's layers cost as much as the
whole call; everything else is Starlette. Read in this order: `http` (reading and
answering), `access` (who calls), `endpoint` (an agent at its addresses), `exchange` (one
request as each binding reads and answers it), `calls` (what it asks of the runtime),
`bindings` (the steps of every request), `streams`, `cards`, `application` (the routing),
`operations` and `metrics` (how it is doing), `logs` and `redaction`. `listener` runs it
all in uvicorn.
Imports `runtime`, `protocol`, `ports` and `model`.
"""
