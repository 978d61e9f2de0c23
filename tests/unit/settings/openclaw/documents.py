"""Files for the tests, and what is made of them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from trunkline.model.errors import ConfigError
from trunkline.settings.openclaw.load import OpenClaw, load_openclaw

URL = "https://agents.example.com"
KEY = "0123456789abcdef0123"


def written(folder: Path, document: Any) -> Path:
    file = folder / "openclaw.json"
    file.write_bytes(msgspec.json.encode(document))
    return file


def accounts(**by_id: Any) -> dict[str, Any]:
    return {"channels": {"a2a": {"accounts": by_id}}}


def loaded(folder: Path, document: Any, **options: Any) -> OpenClaw:
    return load_openclaw(written(folder, document), **({"environment": {}} | options))


def refused(folder: Path, document: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, document, **options)
    return caught.value.message
