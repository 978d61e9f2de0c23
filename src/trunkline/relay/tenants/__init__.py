"""Tenants of the relay: their secrets and keys, the tokens of hosts and clients, and denials."""
