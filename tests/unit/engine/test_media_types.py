"""Accepted output modes: what a caller takes."""

import pytest

from trunkline.engine.media_types import AcceptedModes, mode_of
from trunkline.model.values import Part

TEXT = Part(text="hi")
DATA = Part(data={"a": 1})
IMAGE = Part(url="https://x.test/a.png")


def taken(*modes: str) -> list[Part]:
    accepted = AcceptedModes.of(modes)
    parts = (TEXT, DATA, IMAGE)
    return list(parts if accepted is None else accepted.kept(parts))


@pytest.mark.parametrize(
    "modes", [(), ("",), (" ",), ("*/*",), ("*",), ("image/gif", "*/*"), (" */* ",)]
)
def test_d2_no_mode_and_any_mode_take_everything(modes: tuple[str, ...]) -> None:
    assert AcceptedModes.of(modes) is None
    assert taken(*modes) == [TEXT, DATA, IMAGE]


@pytest.mark.parametrize(
    ("modes", "parts"),
    [
        (("text/plain",), [TEXT]),
        ((" Text/PLAIN ",), [TEXT]),
        (("text/plain; charset=utf-8",), [TEXT]),
        (("text/*",), [TEXT]),
        (("text",), [TEXT]),
        (("application/json",), [DATA]),
        (("image/*",), [IMAGE]),
        (("image/png", "text/*"), [TEXT, IMAGE]),
        (("audio/mpeg",), []),
    ],
)
def test_modes_are_trimmed_of_any_case_and_may_be_patterns(
    modes: tuple[str, ...], parts: list[Part]
) -> None:
    assert taken(*modes) == parts


@pytest.mark.parametrize(
    ("part", "mode"),
    [
        (Part(text="a"), "text/plain"),
        (Part(text="a", media_type="text/markdown"), "text/markdown"),
        (Part(data=None), "application/json"),
        (Part(raw=b"", filename="a.PDF"), "application/pdf"),
        (Part(url="https://x.test/a.jpg?size=1.5#top"), "image/jpeg"),
        (Part(url="https://x.test/a"), "application/octet-stream"),
        (Part(raw=b"", media_type="image/webp", filename="a.png"), "image/webp"),
    ],
)
def test_every_part_has_a_media_type(part: Part, mode: str) -> None:
    assert mode_of(part) == mode
