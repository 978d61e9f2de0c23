"""How many files the system lets this process open: every connection is one."""

import sys

# What is not for connections: the store, the log, calls to agents and their programs.
RESERVED = 128
# As many as anybody needs. Programs that agents run inherit the bound, and some look at
# every number up to it.
WANTED = 65_536

if sys.platform == "win32":

    def room_for_connections() -> int:
        """How many connections leave room for all else."""
        return sys.maxsize

else:
    import resource

    def room_for_connections() -> int:
        """How many connections leave room for all else. Asks the system for more before."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
            except (ValueError, OSError):
                # Some systems have a lower bound than they say.
                pass
        return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - RESERVED, soft // 2)
