# mypy: disable-error-code="no-untyped-def"
"""The agent of the README. Run it with `trunkline serve examples/python/trip.py`."""

import asyncio

from trunkline import agent


@agent(name="Trip planner", skills=["plan"])
async def planner(turn):
    """Plans a trip, one day at a time."""
    if turn.asked is None:
        yield turn.ask("How many days?")
        return
    for day in range(1, int(turn.text) + 1):
        yield f"Day {day}: explore. "
        await asyncio.sleep(0.1)
