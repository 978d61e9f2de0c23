"""News of tasks, agents, calls and recorded exchanges, as one stream below `/api/v1/live`."""
