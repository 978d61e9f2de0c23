"""Decisions: deterministic functions and values without I/O, clock or randomness.

Read in this order: `transitions` (the one table of task states), `run_states` (the one table of
runs), `task_fold` (a journal as a task), `turn_fold` (the outputs of an agent as events),
`admission` (the rules for a message), `lanes` and `queue_limits` (which run starts, which waits,
which is refused), `recovery` (what a restart does). Imports `ports` and `model`.
"""
