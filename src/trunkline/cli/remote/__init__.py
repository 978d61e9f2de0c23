"""Commands that call other agents: `card send stream status watch list cancel targets`.

One file per command. What they share, from the flags to the end: `options`, `calling` (whom to
call), `content` (a message from words and files), `sending`, `following` (until it settles),
`telling` and `tools` (what events mean to a reader, without I/O), `views` with `plain`,
`screen`, `spinner` and `documents` (how they show), `finishing` with `saving` (files of the
answer), `conversations` (what was talked about last), `ending` and `problems` (errors, time,
Ctrl+C). `tables` and `tasks` print lists and tasks; `clean` is what a terminal may be shown.
"""
