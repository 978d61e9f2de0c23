import pytest

from trunkline.cli.remote.tables import aligned

ROWS = [
    ("TASK", "STATE", "ABOUT"),
    ("id-1", "working", "a long story"),
    ("id-22", "done", "日本語"),
]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            80,
            [
                "TASK   STATE    ABOUT",
                "id-1   working  a long story",
                "id-22  done     日本語",
            ],
        ),
        (
            25,
            [
                "TASK   STATE    ABOUT",
                "id-1   working  a long…",
                "id-22  done     日本語",
            ],
        ),
        (20, ["TASK   STATE", "id-1   working", "id-22  done"]),
        (3, ["TASK", "id-1", "id-22"]),
    ],
)
def test_what_does_not_fit_is_cut(width: int, lines: list[str]) -> None:
    assert aligned(ROWS, width=width) == lines
