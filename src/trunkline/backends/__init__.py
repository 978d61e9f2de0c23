"""Agents behind the gateway: one folder per kind of backend.

Each implements `ports.Backend`, passes `trunkline.testing.check_backend`, and imports
only what is further in. They do not know each other; what several of them need is in
`programs`, `turn_task` (a turn in a task of its own) and `output_channel`.
"""
