"""Interfaces: small protocols that adapters implement by shape.

`clock` (time and ids), `store` (durable tasks), `backend` (agents), `authenticator` (credentials),
`gate` (which turns may start), `directory` (the published agents).
Stores and backends have shipped behavioural suites in `trunkline.testing`. Imports only `model`.
"""
