"""Frozen values without behaviour that needs the outside world.

The JSON form of these values, written by msgspec, *is* the JSON form of A2A 1.0
(camelCase names, enum names, defaults left out), so the journal, the wire and the
snapshots share one encoding. Imports nothing of Trunkline.

Read in this order: `timestamps`, `values` (messages, tasks, artifacts), `events`
(what the journal holds), `large_values` (texts that it refers to), `outputs` (what an
agent emits), `calls` (what a client asks), `card` (how an agent describes itself),
`errors` (how we refuse), `addresses` (what may be shown of one).
"""
