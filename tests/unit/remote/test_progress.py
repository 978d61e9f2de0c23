from trunkline.model.values import Artifact, Part, TaskArtifactUpdateEvent
from trunkline.remote.progress import Progress


def chunk(text: str, metadata: dict[str, str], *, append: bool) -> TaskArtifactUpdateEvent:
    artifact = Artifact(
        artifact_id="a", name="answer", parts=(Part(text=text),), metadata=dict(metadata)
    )
    return TaskArtifactUpdateEvent(
        task_id="t", context_id="c", artifact=artifact, append=append, last_chunk=None
    )


def test_metadata_of_a_chunk_take_the_place_of_those_before() -> None:
    progress = Progress()
    progress.add(chunk("One, ", {"model": "m"}, append=False))
    progress.add(chunk("two", {"usage": "5"}, append=True))
    (artifact,) = progress.artifacts()
    assert artifact == Artifact(
        artifact_id="a",
        name="answer",
        parts=(Part(text="One, two"),),
        metadata={"usage": "5"},
    )
