"""Tasks and their journals below `/api/v1/tasks`, over the stores of all agents."""
