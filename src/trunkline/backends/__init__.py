"""Agents behind the gateway: one folder per kind of backend, with the same file names in each.

A folder has `settings.py` and `rules.py` (its table of the configuration), `doctor.py`,
`failures.py` and `backend.py`, and exports one `KIND`; `kind.py` says what that is. A backend
implements `ports.Backend`, passes `trunkline.testing.check_backend`, and imports no other
backend. Modules that several of them share stand beside the folders, and in `programs`.
"""
