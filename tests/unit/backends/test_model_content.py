"""What a message holds, as a model takes it."""

import base64

import pytest

from trunkline.backends.model_content import NotTaken, Takes, content_of, is_textual, told
from trunkline.model.values import Part

ALL = Takes(images=True, files=True, links=True)
PNG = Part(raw=b"\x89PNG", media_type="image/png", filename="a.png")
PDF = Part(raw=b"%PDF", media_type="application/pdf", filename="a.pdf")
LINK = Part(url="https://example.com/a.png", media_type="image/png")


def test_text_and_data_are_one_text() -> None:
    parts = (Part(text="look"), Part(data={"n": 1}))
    assert content_of(parts, Takes()) == 'look\n\n{"n":1}'


def test_a_text_file_is_read_by_every_model() -> None:
    part = Part(raw=b"a,b", media_type="text/csv; charset=utf-8", filename="t.csv")
    assert content_of((part,), Takes()) == "t.csv:\n\na,b"
    part = Part(raw=b"{}", media_type="application/ld+json")
    assert content_of((part,), Takes()) == "file:\n\n{}"


def test_every_backend_takes_the_same_types_for_text() -> None:
    textual = ("text/csv", "application/toml", "application/x-sh", "model/gltf+json")
    assert all(is_textual(media_type) for media_type in textual)
    others = ("", "application/zip", "application/octet-stream", "image/png", "image/svg+xml")
    assert not any(is_textual(media_type) for media_type in others)


def test_an_image() -> None:
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    assert content_of((Part(text="look"), PNG), ALL) == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": url}},
    ]


def test_a_file() -> None:
    data = "data:application/pdf;base64," + base64.b64encode(b"%PDF").decode()
    file = {"filename": "a.pdf", "file_data": data}
    assert content_of((PDF,), ALL) == [{"type": "file", "file": file}]
    unknown = content_of((Part(raw=b"\xff"),), ALL)
    assert isinstance(unknown, list)
    assert unknown[0]["file"]["file_data"].startswith("data:application/octet-stream;")


def test_links() -> None:
    linked = {"type": "image_url", "image_url": {"url": LINK.url}}
    assert content_of((LINK,), ALL) == [linked]
    assert content_of((Part(url="https://example.com/a.pdf"),), ALL) == "https://example.com/a.pdf"


@pytest.mark.parametrize(
    ("part", "takes", "reason"),
    [
        (PNG, Takes(), "takes no images"),
        (PDF, Takes(images=True), "cannot read application/pdf"),
        (Part(raw=b"\xff", media_type="text/plain"), Takes(), "cannot read text/plain"),
        (Part(raw=b"x"), Takes(), "an unknown media type"),
        (LINK, Takes(images=True), "follows no links"),
        (LINK, Takes(links=True), "takes no images"),
    ],
)
def test_what_is_not_taken_is_refused_with_the_reason(
    part: Part, takes: Takes, reason: str
) -> None:
    with pytest.raises(NotTaken, match=reason):
        content_of((part,), takes)


def test_what_was_said_before_names_its_files() -> None:
    assert told((Part(text="look"), PNG, Part(data=[1]), Part(raw=b""))) == (
        "look\n\n[a.png]\n\n[1]\n\n[a file]"
    )
