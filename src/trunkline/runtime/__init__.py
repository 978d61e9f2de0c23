"""Execution on asyncio: carries out the decisions of the engine on committed state.

Read in this order: `agents` (a published agent), `live_task` (a task in memory), `registry`
(the tasks in memory), `journal` (commit, then publish), `large_values` (texts stored apart from
the entries), `fanout` (readers), `run`, `runs`, `turns` and `recorder` (running agents),
`store_refusals` (what the store does not accept), `intake`, `new_tasks`, `follow_ups` and
`turn_gate` (accepting messages), `task_json` (tasks as callers see them), `service` (one method
per call), `housekeeping`, `drain` (how runs end when the gateway stops or an agent leaves),
`publishing` (agents come and go), `runtime` (all of it assembled). Imports `engine`, `ports` and
`model`; never `protocol`: it knows no wire format.
"""
