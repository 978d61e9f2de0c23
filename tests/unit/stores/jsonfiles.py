"""Folders of task records, as another program writes them, and stores on them."""

import base64
import json
from pathlib import Path
from typing import Any

from trunkline.ports.store import Scope
from trunkline.stores.jsonfile import JsonFileStore
from trunkline.testing import FakeClock

OWNER = Scope("acme/echo", "", "owner")


def store_on(folder: Path, **options: Any) -> JsonFileStore:
    return JsonFileStore(folder, **{"clock": FakeClock(), "adopts": OWNER, **options})


def file_of(folder: Path, task_id: str) -> Path:
    name = base64.urlsafe_b64encode(task_id.encode()).decode().rstrip("=")
    return folder / f"{name}.json"


def read_record(folder: Path, task_id: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file_of(folder, task_id).read_text("utf-8"))
    return record


def write_record(folder: Path, record: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    path = file_of(folder, record["task"]["id"])
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
