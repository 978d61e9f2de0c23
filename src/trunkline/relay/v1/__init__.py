"""Protocol v1 in both roles: `host` at an older relay, and older agents at a relay of ours."""
