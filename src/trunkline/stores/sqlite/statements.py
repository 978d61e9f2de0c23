"""The named statements of `queries.sql`."""

from collections.abc import Iterator
from importlib.resources import files

_NAME = "-- name: "


def parse_statements(text: str) -> dict[str, str]:
    """Statements by name; comments are left out. Raises ValueError for a name used twice."""
    found: dict[str, str] = {}
    for name, statement in _split(text):
        if name in found:
            raise ValueError(f"two statements are named {name}")
        found[name] = statement
    return found


def _split(text: str) -> Iterator[tuple[str, str]]:
    for piece in f"\n{text}".split(f"\n{_NAME}")[1:]:
        name, _, rest = piece.partition("\n")
        lines = [line for line in rest.splitlines() if not line.lstrip().startswith("--")]
        yield name.strip(), "\n".join(lines).strip().removesuffix(";")


SQL = parse_statements(files(__package__).joinpath("queries.sql").read_text("utf-8"))
