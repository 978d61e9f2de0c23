"""Interfaces: small protocols that adapters implement by shape.

`clock` (time and ids), `store` (durable tasks), `backend` (agents). Each has a shipped
behavioural suite in `trunkline.testing`. Imports only `model`.
"""
