"""Response routing: one agent asks another, and the answer comes back to the session of the one
that asked: once, in time, also after a restart."""
