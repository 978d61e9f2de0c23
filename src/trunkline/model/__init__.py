"""The values of A2A and of the journal: frozen, without I/O.

The JSON form of these values, written by msgspec, *is* the JSON form of A2A 1.0
(camelCase names, enum names, defaults left out), so the journal, the wire and the
snapshots share one encoding. Imports nothing of Trunkline.

Read in this order: `timestamps`, `values` (messages, tasks, artifacts), `events` (the entries of
the journal), `large_values` (texts that it refers to), `outputs` (the items that an agent emits),
`principal` (the caller and its grants), `calls` (the requests of clients), `card` (the agent card),
`errors`, `addresses` (which ones are public).
"""
