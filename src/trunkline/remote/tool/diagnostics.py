"""What was asked of a peer beside what its card offers, to explain a refused send."""

from collections.abc import Iterable
from mimetypes import MimeTypes
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import UNSET

from trunkline.model.card import AgentCard
from trunkline.model.values import Part

UNKNOWN: Final = "unknown"
# Without the tables of the machine, so that the same file is the same type everywhere.
_TYPES: Final = MimeTypes(filenames=())


def capability_diagnostics(
    parts: tuple[Part, ...], output_modes: tuple[str, ...], card: AgentCard | None
) -> dict[str, Any]:
    inputs = [mode_of(part) for part in parts]
    offered_in, offered_out = _offered(card)
    wanted_in, wanted_out = _unique(inputs), _unique(output_modes)
    return {
        "requested_input_modes": wanted_in,
        "unknown_file_attachments": [at for at, mode in enumerate(inputs) if mode == UNKNOWN],
        "advertised_input_modes": offered_in,
        # Of an unknown type nobody can say that it is unsupported.
        "unsupported_input_modes": [
            mode for mode in wanted_in if mode != UNKNOWN and mode not in offered_in
        ],
        "requested_output_modes": wanted_out,
        "advertised_output_modes": offered_out,
        "unsupported_output_modes": [mode for mode in wanted_out if mode not in offered_out],
    }


def mode_of(part: Part) -> str:
    if part.text is not None:
        return "text/plain"
    if part.data is not UNSET:
        return "application/json"
    if part.media_type:
        return part.media_type.lower()
    by_uri = urlsplit(part.url).path if part.url else ""
    for name in (part.filename, by_uri):
        guessed, _ = _TYPES.guess_type(name, strict=False)
        if guessed:
            return guessed.lower()
    return UNKNOWN


def _offered(card: AgentCard | None) -> tuple[list[str], list[str]]:
    if card is None:
        return [], []
    inputs, outputs = list(card.default_input_modes), list(card.default_output_modes)
    for skill in card.skills:
        inputs += skill.input_modes
        outputs += skill.output_modes
    return _unique(inputs), _unique(outputs)


def _unique(modes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([mode.lower() for mode in modes]))
