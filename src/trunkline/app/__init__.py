"""The gateway put together from its settings: the only package that names concrete adapters.

Read `adapters` (settings to stores and backends), `cards` and `endpoints` (settings to agent
cards and their addresses), `gateway` (all parts as one), `serve` (the gateway in this process),
`outbound` and `tools` (the agents and tools that are called). `doctor`, `store_maintenance` and
`try_agent` each serve the command of that name.
"""
