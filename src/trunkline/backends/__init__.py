"""Agents behind the gateway: one folder per kind of backend.

Each implements `ports.Backend`, passes `trunkline.testing.check_backend`, and imports
only what is further in. They do not know each other; what several of them need is in
`process` (programs), `asked` (requests to somebody else) and `flood` (a limit to what is said).
"""
