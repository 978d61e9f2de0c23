"""The providers at which people sign in.

Each one tells where to send the browser, and who came back. Read `provider` (the interface), then
`local` (passwords at the gateway itself), `oidc` and `github`.
"""
