"""The relay: agents of a gateway that dials out, called at the address of another one.

The sessions are those of `protocol.relay`, and `carrier` takes them over sockets. `relay` keeps the
hosts that are attached, `sockets` and `polling` take their connections, and `requests` takes those
of callers. `hosts` is the other side: a gateway that attaches its agents.

Beside them: `mailbox` for agents that are away, `tenants` and their tokens, `nodes` where several
relays share a store, and `v1` for relays and agents of the earlier protocol. Both sides meet the
server as ASGI applications and as mounts.
"""
