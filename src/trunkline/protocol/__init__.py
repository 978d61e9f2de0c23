"""The wire formats of A2A: plain functions between bytes and values, without any I/O.

Imports `model` and msgspec only; no clock, no sockets, no logging.

Read in this order: `versions` and `operations` (the operation of a request), `limits` (bodies that
no parser may see), `jsonrpc`, `rest` and `rest_routes` (the two bindings), `dialects` (the versions
of one agent) with `v1` and `v03`, `protojson` and `protojson_fields` (JSON to values, with the
field at fault), `errors`, `sse` and `cards`. `client_requests` and `client_responses` are the side
of a client. `openclaw` has the style of one vendor.
"""
