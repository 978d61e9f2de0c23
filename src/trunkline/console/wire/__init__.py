"""The wire log: what passed the wire of the agents that an operator records, and the faults that
an operator injects.

Read `masking` (secrets are taken out when bytes are recorded), `exchange` (one exchange), `log`
(the ring of all), `ids`, `control` (which agents are recorded), then the routes.
"""
