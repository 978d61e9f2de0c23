"""Commands that call other agents: `send stream watch status list cancel card targets`.

`send.py`, `tasks.py`, `card.py` and `targets.py` have the commands. They share `invocation`
(flags, connection, exit code) with `addresses` (the target) and `failures` (errors), `delivery`
(a message or a task, up to the exit code) with `follow` (a task until it settles) and
`conversations` (the last one with each agent), `events` (a stream as pieces to display),
`screen` and `terminal` (which display them), `tables`, and `files` (in a message and of an answer).
"""
