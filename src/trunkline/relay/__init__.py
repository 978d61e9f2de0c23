"""The relay: agents of a gateway that dials out, called at the address of another one.

The sessions are those of `protocol.relay`, and `carrier` takes them over sockets. `relay` and
`requests` are the side of the relay, `host` and `exchanges` that of the host. Both sides meet the
server as ASGI applications and as mounts.
"""
