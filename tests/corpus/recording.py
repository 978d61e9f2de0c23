"""`recorded`: the answers of a gateway to a scenario, as they went over the wire.

Ids are random, so each is replaced by the number of its first appearance. Nothing else is changed.
"""

import re
from pathlib import Path

from tests.bindings.asgi import Answer
from tests.bindings.clients import CLIENTS, Client
from tests.bindings.world import World, open_world
from tests.corpus.scenarios import Json, Scenario, Step

FOLDER = Path(__file__).parent / "answers"
_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_TASK = re.compile(rb'"id":"([^"]+)","contextId":"([^"]+)"|"contextId":"([^"]+)","id":"([^"]+)"')


def file_of(scenario: Scenario) -> Path:
    return FOLDER / f"{scenario.name.replace(' ', '_')}.txt"


async def recorded(scenario: Scenario, database: Path | None = None) -> bytes:
    """All dialects one after the other, each with a gateway of its own."""
    pieces = []
    for name in CLIENTS:
        own = None if database is None else database / f"{scenario.name}-{name}.db"
        async with open_world(database=own, **scenario.agent) as world:
            pieces.append(await _dialect(world, world.client(name), scenario))
    return b"\n".join(pieces)


async def _dialect(world: World, client: Client, scenario: Scenario) -> bytes:
    known: dict[str, str] = {}
    pieces: list[bytes] = []
    for step in scenario.steps:
        request = client.request(step.operation, _filled(step, known))
        request.headers |= step.headers
        answer = await world.http.send(request)
        if (task := _TASK.search(answer.body)) is not None:
            first, second, third, fourth = (each and each.decode() for each in task.groups())
            known = {"TASK": first or fourth or "", "CONTEXT": second or third or ""}
        pieces.append(f"== {client.name} {step.operation}\n".encode() + _shown(answer))
        # Statuses differ in time, as they do for callers.
        await world.clock.advance(1.0)
    numbers: dict[bytes, bytes] = {}
    return _ID.sub(
        lambda found: numbers.setdefault(found[0], b"id-%d" % (len(numbers) + 1)),
        b"\n".join(pieces),
    )


def _filled(step: Step, known: dict[str, str]) -> Json:
    def fill(value: object) -> object:
        if isinstance(value, str):
            return known.get(value, value)
        if isinstance(value, dict):
            return {name: fill(each) for name, each in value.items()}
        return [fill(each) for each in value] if isinstance(value, list) else value

    filled = fill(step.params)
    assert isinstance(filled, dict)
    return filled


def _shown(answer: Answer) -> bytes:
    headers = "".join(
        f"{name}: {value}\n"
        for name, value in sorted(answer.headers.items())
        # It follows from the body, whose ids are replaced.
        if name != "content-length"
    )
    return f"{answer.status}\n{headers}\n".encode() + answer.body + b"\n"
