"""Write docs/configuration.md and docs/trunkline.schema.json from the settings."""

import json
from pathlib import Path

from trunkline.settings import schema
from trunkline.settings.reference import reference

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    (DOCS / "configuration.md").write_text(reference(), "utf-8")
    (DOCS / "trunkline.schema.json").write_text(json.dumps(schema(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
