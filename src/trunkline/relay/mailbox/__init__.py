"""The mailbox: messages for agents that are away.

`records` is what the store has, `mailbox` that of one agent and `mailboxes` all of them.
`operations` and `streams` answer the callers of what waits, and `couriers` deliver it.
"""
