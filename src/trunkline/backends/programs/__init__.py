"""Child processes: how a program is started, heard, limited and ended.

For backends whose agent is a program. Read in this order: `program` (what is started, with
which environment), `bytes_read` and `frames` (lines, text and JSON out of bytes), `child` (one
process and its pipes), `children` (all of one backend, none of which outlives it), `warden`
(not even when the gateway is killed), `work` (one turn),
`scope` and `pool` (sessions, and processes that are kept for them), `prompt` and `attachments`
(a message as text and files), `sentences` (what a caller reads when it goes wrong). `launch`
and `watch_groups` are scripts that run in processes of their own.
"""
