"""The side of a host: the connections to its relays, and the requests that come through them.

`host` keeps the agents attached and moves them between relays, each a `link` with an `attachment`;
`transports` and `dialing` make its connections. `relayed_agents` serves the requests, each an
`exchange`, by the application of the gateway.
"""
