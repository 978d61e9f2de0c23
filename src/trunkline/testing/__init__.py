"""Shipped test equipment: suites for authors of adapters, and doubles that behave.

`check_store` proves a store against its port, `crashing_store` breaks one on purpose.
"""
