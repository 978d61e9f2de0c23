"""What bytes mean: plain functions between bytes and values, without any I/O.

Imports `model` and msgspec only; no clock, no sockets, no logging.

Read in this order: `versions` and `operations` (which call is this), `limits` (may it
be parsed at all), `jsonrpc` and `rest` (the two bindings), `dialect` (what every
version can do) with `v1`, `v03` and `v03_rest`, `protojson` and `protojson_fields` (how JSON
becomes a value, and which field is to blame), `errors` (what a refusal looks like),
`sse` and `cards`.
"""
