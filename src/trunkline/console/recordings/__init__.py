"""Recorded tasks: as a test in Python, and as an agent that plays them again."""
