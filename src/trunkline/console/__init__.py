"""The page at `/` and what it needs of the gateway beside the hub's own interface.

It meets the server and the outbound client in `ports`, and `app` connects them. The wire log, in
the order to read it: `wire_masking` (secrets are taken out when bytes are recorded),
`wire_exchange` (one exchange as it is recorded), `wire_log` (the ring of all of them), `wire_ids`
(the task and context of an exchange), `wire_control` (which agents are recorded or get faults),
`wire_api` and `faults_api` (the routes).
"""
