"""OpenClaw over HTTP, when what it says cannot be read."""

import pytest

from trunkline.backends.openclaw.completions import refused

UNREADABLE = {
    "no json": b"{",
    "no text": b'{"error": {"message": "\xff"}}',
    "too deep": b'{"error": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_refusal_without_a_reason_is_a_refusal(body: bytes) -> None:
    assert refused(400, body).found == "OpenClaw refuses: "
