"""The protocol between a relay and its hosts, as state machines without I/O.

A *host* is a gateway that dials out, so that its agents can be called through the *relay*. The two
share a *session* over any number of connections; each HTTP exchange with an agent is a *stream* of
the session. Streams carry HTTP as it is, so any A2A method of any version passes.

Read in this order: `frames` (the bytes), `close_codes`, `outbox` (numbers, acknowledgement and
replay), `streams` (credit and the ends of a stream), `events`, `session` (what both sides share),
`relay_session` and `host_session` (one side each). `leases` decides which session has an agent,
`callers` signs the identity of a caller, and `reconnects` says when to try again.

`deliveries` are messages of the mailbox, `polling` carries the frames over HTTP requests,
`hop_sessions` are those between two nodes of a relay, and `v1` is the earlier protocol.
"""
