"""Thoughts that a model writes into its answer: `<think>…</think>` before all else."""

from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class Thoughts:
    """Feed it text as it streams; it gives back what is part of the answer."""

    def __init__(self) -> None:
        # What may still turn out to be a tag.
        self._held = ""
        self._is_thinking = False
        self._is_past = False
        # The blanks between thoughts and answer belong to neither.
        self._trims = False

    def feed(self, text: str) -> str:
        if self._is_past:
            return self._trimmed(text) if self._trims else text
        self._held += text
        if not self._is_thinking:
            self._look()
        if self._decided_to_speak():
            return self._released()
        if not self._is_thinking:
            return ""
        _, closes, rest = self._held.partition(_CLOSE)
        if not closes:
            # All but what could be the first letters of the closing tag is of no more use.
            self._held = self._held[-(len(_CLOSE) - 1) :]
            return ""
        self._held, self._is_past, self._trims = "", True, True
        return self._trimmed(rest)

    def end(self) -> str:
        """What is left when nothing follows: a tag that was never closed hides the rest."""
        return "" if self._is_thinking else self._released()

    def _look(self) -> None:
        """Whether it begins with a thought; as long as it may, nothing is decided."""
        start = self._held.lstrip()
        if start.startswith(_OPEN):
            self._is_thinking = True
            self._held = start[len(_OPEN) :]
        elif not _OPEN.startswith(start):
            self._is_past = True

    def _decided_to_speak(self) -> bool:
        return self._is_past

    def _released(self) -> str:
        held, self._held = self._held, ""
        return held

    def _trimmed(self, text: str) -> str:
        rest = text.lstrip()
        self._trims = not rest
        return rest
