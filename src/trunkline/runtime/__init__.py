"""What we do, on asyncio: carry out the engine's decisions on committed state.

Read in this order: `live` (a task in memory), `journal` (commit, then publish), `fanout`
(readers), `turns` (running agents), `service` (one method per call), `housekeeping`.
`clock` and `tasks` are the adapters for time, ids and background work.
Imports `engine`, `ports` and `model`; never `protocol`: it knows no wire format.
"""
