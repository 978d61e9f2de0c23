"""Protocol v1 between a relay and an agent, as state machines without I/O: `frames` first."""
