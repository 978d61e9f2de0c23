"""`Route`: what happens when the task of an agent completes, fails or emits an artifact."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from msgspec import Struct

from trunkline.engine.media_types import mode_matches
from trunkline.model.values import Artifact, TaskState

RouteEvent: TypeAlias = Literal["completed", "failed", "artifact"]

_FAILED = (TaskState.FAILED, TaskState.REJECTED)


class Route(Struct, frozen=True, kw_only=True):
    name: str
    # A pattern of handles.
    agent: str
    on: RouteEvent
    # Filters of artifacts: a pattern of their names, and a media type of one of their parts.
    artifact: str = "*"
    media_type: str = ""
    # The agent or target to call, or else the channel that is told.
    call: str = ""
    skill: str = ""
    channel: str = ""
    # How long the answer may take that goes to the session of the task; 0 for no answer.
    timeout_ms: int = 0
    # How often it may happen in an hour; 0 for no limit.
    max_per_hour: int = 0


def routes_of(routes: Sequence[Route], agent: str) -> tuple[Route, ...]:
    return tuple([route for route in routes if fnmatchcase(agent, route.agent)])


def follows_end(route: Route, state: TaskState) -> bool:
    """Whether the route follows a task that has ended in this state."""
    if route.on == "completed":
        return state is TaskState.COMPLETED
    return route.on == "failed" and state in _FAILED


def follows_artifact(route: Route, artifact: Artifact) -> bool:
    """Whether the route follows this artifact, which is complete."""
    if route.on != "artifact" or not fnmatchcase(artifact.name, route.artifact):
        return False
    return not route.media_type or any(
        mode_matches(_media_type(part.media_type, part.text is not None), route.media_type)
        for part in artifact.parts
    )


def _media_type(named: str, is_text: bool) -> str:
    return named or ("text/plain" if is_text else "application/json")
