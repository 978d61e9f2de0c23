"""Calling other agents over A2A.

`peer` says what the rest needs of a remote agent, `errors` how a call can fail, and
`tool` is `remote_agent`, the tool that a model calls. Knows the protocol and the model,
never the gateway's own runtime.
"""
