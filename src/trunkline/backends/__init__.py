"""Agents behind the gateway: one adapter per way of running them.

Each implements `ports.Backend`, passes `trunkline.testing.check_backend`, and imports
only `ports` and `model`. They do not know each other.
"""
