"""What we do, on asyncio: carry out the engine's decisions on committed state.

Read in this order: `agents` (what is published), `live` (a task in memory), `registry`
(which tasks are), `journal` (commit, then publish), `large_values` (texts that are stored
apart from the entries), `fanout` (readers), `run` and `turns`
(running agents), `intake` (letting messages in), `views` (what callers see), `service`
(one method per call), `housekeeping`, `runtime` (all of it as one). `clock`, `tasks` and
`passes` are the adapters for time, ids and background work.
Imports `engine`, `ports` and `model`; never `protocol`: it knows no wire format.
"""
