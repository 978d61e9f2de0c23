"""Several relay nodes on one store: where an agent is attached, and the hop to it."""
