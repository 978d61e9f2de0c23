"""The gateway put together from its settings: the only package that names concrete adapters.

Read `adapters` (settings to stores and backends), `cards` and `endpoints` (settings to agent
cards and their addresses), `runtimes` (one for each store), `front` (access, limits and pages),
`directory` (agents come and go), `gateway` (all parts as one), `serve` (the gateway in this
process), `reload` (a changed configuration), `outbound` and `tools` (the agents and tools that are
called). `operator_client` gives commands to a running gateway. `doctor`, `store_maintenance` and
`try_agent` each serve the command of that name.
"""
