"""Child processes: how a program is started, read, limited and ended.

Shared by the backends whose agent is a program, `command` and `acp`. Read in this order:
`settings` (the keys that both have, and their rules), `program` (what is started, with which
environment), `output_lines` (lines and text out of bytes), `child` (one process and its
pipes), `children` (all of one backend, none of which outlives it), `warden` (not even when the
gateway is killed), `sessions` (processes that are kept for them), `backend` (a backend and its
turns, whatever the program), `prompt` (a message as text and files) and `failures` (the texts
for callers). `launch` and `watch_groups` are scripts that run in separate processes.
"""
