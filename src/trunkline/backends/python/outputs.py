"""Outputs made from the values that an agent yields and returns."""

from typing import cast, get_args

from trunkline.backends.python.parts import ToolCall, part_of
from trunkline.model.outputs import (
    ENDS_TURN,
    ArtifactEmitted,
    Final,
    Output,
    StageEnded,
    StageStarted,
    Text,
    TextPreview,
    TextReplaced,
)
from trunkline.model.values import Artifact, Part

_OUTPUTS: tuple[type, ...] = get_args(Output)


class TurnEnd(Exception):
    """The end of a turn, made by `turn.ask`, `turn.refuse` and their like.

    Return it, yield it, or raise it from however deep inside: all three mean the same.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self.output = output


def end_in(error: BaseException) -> TurnEnd | None:
    """The end that was raised, also where a task group has wrapped it."""
    if isinstance(error, BaseExceptionGroup):
        ends, others = error.split(TurnEnd)
        error = _first(ends) if ends is not None and others is None else error
    return error if isinstance(error, TurnEnd) else None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Answer:
    """Makes outputs of the values of one run.

    With `streams`, each piece of text is an output at once. Other content can only go out at the
    end, so after the first such value the end carries the whole answer in order.
    """

    __slots__ = ("_length", "_pieces", "_streams", "_whole_at_end")

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams
        self._pieces: list[str | Part] = []
        # Characters of the text that streamed.
        self._length = 0
        self._whole_at_end = not streams

    def outputs(self, value: object) -> list[Output]:
        """The outputs for a value, up to and including the end of the turn."""
        if type(value) is str:
            # By far the most frequent type.
            text = self._take_text(value)
            return [] if text is None else [text]
        outputs: list[Output] = []
        for piece in _pieces_of(value):
            if isinstance(piece, StageStarted | StageEnded):
                outputs += self._next_stage(piece)
            elif (output := self._take(piece)) is not None:
                outputs.append(output)
                if isinstance(output, ENDS_TURN):
                    break
        return outputs

    def _take(self, piece: object) -> Output | None:
        if isinstance(piece, str):
            return self._take_text(piece)
        if piece is None:
            return None
        if isinstance(piece, TurnEnd):
            return self.completed(piece.output)
        if isinstance(piece, _OUTPUTS):
            return self._take_output(cast(Output, piece))
        if isinstance(piece, Artifact):
            return ArtifactEmitted(artifact=piece)
        if isinstance(piece, ToolCall):
            return piece.start()
        part = part_of(piece)
        if self._streams and part.text is not None and part == Part(text=part.text):
            return self._take_text(part.text)
        self._pieces.append(part)
        self._whole_at_end = True
        return None

    def end(self) -> Output | None:
        """The rest when the agent has finished; None when everything was sent."""
        return Final(self._merged()) if self._whole_at_end and self._pieces else None

    def _take_text(self, text: str) -> Output | None:
        if self._streams:
            self._pieces.append(text)
            self._length += len(text)
            return Text(text) if text else None
        self._pieces.append(Part(text=text))
        return None

    def _take_output(self, output: Output) -> Output | None:
        match output:
            case Text(delta):
                return self._take_text(delta)
            case TextReplaced(text):
                self._pieces = [text, *(piece for piece in self._pieces if type(piece) is Part)]
                self._length = len(text)
                return output if self._streams else None
            case TextPreview(text):
                return self._take_text(self._rest_of(text))
            case _:
                return self.completed(output)

    def _rest_of(self, preview: str) -> str:
        # A shorter text cannot repeat the text so far, so short pieces need no join of it.
        if self._length and len(preview) >= self._length:
            so_far = "".join([piece for piece in self._pieces if isinstance(piece, str)])
            return preview.removeprefix(so_far)
        return preview

    def _next_stage(self, output: StageStarted | StageEnded) -> list[Output]:
        """End the message with all of its content, if that could not stream, and begin another."""
        told: list[Output] = [output]
        if (
            self._whole_at_end
            and self._pieces
            and not (type(output) is StageEnded and output.parts)
        ):
            told = [StageEnded(self._merged()), *(told if type(output) is StageStarted else ())]
        self._pieces = []
        self._length = 0
        self._whole_at_end = not self._streams
        return told

    def completed(self, output: Output) -> Output:
        """An end without content gets the answer so far, if that could not stream."""
        if isinstance(output, Final) and not output.parts and self._whole_at_end:
            return Final(self._merged(), output.metadata)
        return output

    def _merged(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        text: list[str] = []
        for piece in self._pieces:
            if isinstance(piece, str):
                text.append(piece)
                continue
            if text:
                parts.append(Part(text="".join(text)))
                text.clear()
            parts.append(piece)
        if text:
            parts.append(Part(text="".join(text)))
        return tuple(parts)


def outputs_of_result(value: object) -> list[Output]:
    """The outputs for the value that an agent returned; the last one ends the turn."""
    if isinstance(value, str):
        return [Final((Part(text=value),))]
    answer = Answer(streams=False)
    outputs = answer.outputs(value)
    if not outputs or not isinstance(outputs[-1], ENDS_TURN):
        outputs.append(answer.end() or Final())
    return outputs


def _pieces_of(value: object) -> tuple[object, ...]:
    """A tuple, or a list of parts, is several pieces; every other value is one."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, list) and value and all(isinstance(item, Part) for item in value):
        return tuple(value)
    return (value,)
