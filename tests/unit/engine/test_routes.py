"""Which routes follow the tasks of an agent."""

import pytest

from trunkline.engine.routes import Route, RouteEvent, follows_artifact, follows_end, routes_of
from trunkline.model.values import Artifact, Part, TaskState


def route(
    agent: str = "acme/writer",
    on: RouteEvent = "completed",
    artifact: str = "*",
    media_type: str = "",
) -> Route:
    return Route(name="r", agent=agent, on=on, artifact=artifact, media_type=media_type)


def test_a_route_follows_the_agents_of_its_pattern() -> None:
    writer, all_of_acme, other = route(), route("acme/*"), route("labs/*")
    assert routes_of((writer, all_of_acme, other), "acme/writer") == (writer, all_of_acme)
    assert routes_of((writer, all_of_acme, other), "acme/judge") == (all_of_acme,)
    assert routes_of((), "acme/writer") == ()


@pytest.mark.parametrize("state", list(TaskState))
def test_a_route_follows_the_ends_that_it_names(state: TaskState) -> None:
    assert follows_end(route(on="completed"), state) is (state is TaskState.COMPLETED)
    assert follows_end(route(on="failed"), state) is (
        state in (TaskState.FAILED, TaskState.REJECTED)
    )
    assert not follows_end(route(on="artifact"), state)


TEXT = Part(text="words")
DATA = Part(data={"a": 1})
IMAGE = Part(raw=b"\x89PNG", media_type="image/png")


@pytest.mark.parametrize(
    ("filters", "name", "parts", "follows"),
    [
        ({}, "report", (TEXT,), True),
        ({"artifact": "report*"}, "report-1", (TEXT,), True),
        ({"artifact": "report*"}, "notes", (TEXT,), False),
        ({"media_type": "text/*"}, "report", (TEXT,), True),
        ({"media_type": "application/json"}, "report", (DATA,), True),
        ({"media_type": "application/json"}, "report", (TEXT,), False),
        ({"media_type": "image/png"}, "report", (TEXT, IMAGE), True),
        ({"media_type": "image/*"}, "report", (TEXT, DATA), False),
        ({"media_type": "text/*"}, "report", (), False),
    ],
)
def test_a_route_follows_the_artifacts_of_its_filters(
    filters: dict[str, str], name: str, parts: tuple[Part, ...], follows: bool
) -> None:
    artifact = Artifact(artifact_id="a1", name=name, parts=parts)
    assert follows_artifact(route(on="artifact", **filters), artifact) is follows
    assert not follows_artifact(route(on="completed", **filters), artifact)
