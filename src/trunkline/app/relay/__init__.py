"""The relay and the hosts of a gateway, put together: `relaying` is where to begin."""
