"""An existing `openclaw.json` as settings.

Read `file.py` (text to document), `inbound.py` (the accounts of the inbound plugin as agents),
`a2a_section.py` (the section `a2a` of the integration design as an agent), `outbound.py` (the
targets of the outbound plugin), `listen_address.py` (`gateway.bind`), and `load.py` (all of it,
with a TOML file and flags on top). `values.py` reads single values as the plugins do, and
`profile.py` has the styles and presets of both designs.
"""
