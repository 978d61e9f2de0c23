"""Write configuration.md, profiles.md and trunkline.schema.json in docs/reference."""

import json
from pathlib import Path

from trunkline.settings import schema
from trunkline.settings.documentation import profile_reference, reference

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    (DOCS / "reference" / "configuration.md").write_text(reference(), "utf-8")
    (DOCS / "reference" / "profiles.md").write_text(profile_reference(), "utf-8")
    (DOCS / "reference" / "trunkline.schema.json").write_text(
        json.dumps(schema(), indent=2) + "\n", "utf-8"
    )


if __name__ == "__main__":
    main()
