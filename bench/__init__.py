"""Benchmark of Trunkline beside its peers. Linux only: it reads /proc and pins to cores.

Read in this order: `script` (what every agent does), `peers/` (the servers), `wire` and
`client` (the load generator), `dialects` (requests and answers), `cases/`, `rounds`, `report`,
`main`. Run it with `bench/run`.
"""
