"""Towards clients: HTTP, A2A on it, and the gateway's own pages.

The A2A paths are plain functions of a request and a response, because a framework's layers
cost as much as the whole call; everything else is Starlette. Read in this order: `http`
(reading and answering), `asgi` (the same under another server), `access` (who calls),
`endpoint` (an agent at its addresses), `exchange` (one request as each binding reads and
answers it), `calls` (what it asks of the runtime), `bindings` (the steps of every request),
`streams`, `large_answers`, `cards`, `application` (the routing), `operations` and `metrics`
(how it is doing), `logs` and `redaction`. Below it all are `listener` (the process as a server),
`connection` (HTTP/1.1 on one socket), `incoming` and `outgoing` (a request and its response
there), `head_cache` (requests with a head that was read before) and `flow_control` (when each must
wait).
Imports `runtime`, `protocol`, `ports` and `model`.
"""
