"""The side of the gateway that clients see: HTTP, A2A over HTTP, and the gateway's own pages.

The A2A paths are plain functions of a request and a response, because a framework's layers
cost as much as the whole call; everything else is Starlette. Read in this order: `http`
(requests and responses), `asgi` and `sockets` (the same from another server, and from our own
connections), `access` (who calls), `endpoint` (an agent at its addresses), `calls` (one
call as each binding reads and answers it), `a2a` (the steps of every A2A request), `streams`,
`large_answers`, `cards`, `application` (the routing), `pages` and `metrics`, `logs`. Below them
are `listener` (the process as a server), `shared` (the state of its connections), `connection`
(HTTP/1.1 on one socket), `head_cache` (request heads that were parsed before), `flow_control` and
`memory_budget`. `websocket` answers the requests to a WebSocket mount;
`websocket_upgrade` and `websocket_connection` are the handshake and the socket on our own
connections, `asgi_websocket` the same behind another server. `mcp` serves tools.
`operator_channel` takes commands of operators, with the file of `operator_credential`.
Imports `runtime`, `protocol`, `ports` and `model`.
"""
