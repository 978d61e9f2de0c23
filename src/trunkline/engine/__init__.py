"""What we decide: deterministic functions and values without I/O, clock or randomness.

Read in this order: `transitions` (the one table of task states), `fold` (a journal as
a task), `turn` (an agent's outputs as events), `admission` (may this message in?),
`lanes` (who runs now, who waits), `recovery` (what a restart does).
Imports `ports` and `model`.
"""
