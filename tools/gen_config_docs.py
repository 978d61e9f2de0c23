"""Write docs/configuration.md, docs/profiles.md and docs/trunkline.schema.json."""

import json
from pathlib import Path

from trunkline.settings import schema
from trunkline.settings.reference import profile_reference, reference

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    (DOCS / "configuration.md").write_text(reference(), "utf-8")
    (DOCS / "profiles.md").write_text(profile_reference(), "utf-8")
    (DOCS / "trunkline.schema.json").write_text(json.dumps(schema(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
