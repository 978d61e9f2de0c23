"""`Chunk` and `Move`: the decisions of a turn, recorded as events in their order."""

from typing import Any, TypeAlias

from msgspec import Struct

from trunkline.engine.artifact_styles import AnswerStyle, ArtifactStyle, artifact_style_of
from trunkline.engine.transitions import Step
from trunkline.model.profile import GatewayTexts, Profile
from trunkline.model.values import Artifact, Message, Part

Parts: TypeAlias = tuple[Part, ...]
Metadata: TypeAlias = dict[str, Any] | None


class Chunk(Struct, frozen=True, gc=False):
    """Record an artifact, or a further piece of it."""

    artifact: Artifact
    append: bool
    last_chunk: bool
    # Whether the chunk has no content, and only marks the chunk before it as the last one.
    is_closing: bool = False
    # Whether the event states that the chunk is not the last one (`lastChunk: false`).
    is_open: bool = False


class Move(Struct, frozen=True, gc=False):
    """Record that the task takes this step, with the message of the agent."""

    step: Step
    message: Message | None = None
    # Whether history keeps the message.
    is_kept: bool = True


Decision: TypeAlias = Chunk | Move
Decisions: TypeAlias = tuple[Decision, ...]


class OutputStyle(Struct, frozen=True, kw_only=True):
    """Where and how a profile shows the answer of an agent."""

    names: type[ArtifactStyle] = AnswerStyle
    texts: GatewayTexts = GatewayTexts()
    # Whether text streams as messages of the working status, not as pieces of an artifact.
    in_working: bool = False
    in_artifact: bool = True
    in_status: bool = True
    in_history: bool = True
    refusal: Step = Step.REFUSE
    # Whether a turn ends as soon as its agent cannot be reached.
    fails_offline: bool = False


STANDARD = OutputStyle()


def style_of(profile: Profile) -> OutputStyle:
    style = OutputStyle(
        names=artifact_style_of(profile),
        texts=profile.texts,
        in_working=profile.stream_shape == "status-text",
        in_artifact="artifact" in profile.result_in,
        in_status="status" in profile.result_in,
        in_history="history" in profile.result_in,
        refusal=Step.REFUSE if profile.refusal_state == "rejected" else Step.FAIL,
        fails_offline=profile.offline == "fail",
    )
    # The same object, so that `is` finds the most frequent style.
    return STANDARD if style == STANDARD else style
