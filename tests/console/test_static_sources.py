"""What the page loads, how much of it, and what its sources may not do."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from trunkline.console.page.files import FOLDER, INDEX, StaticFiles

FIRST_LOAD_BYTES = 80_000
ALL_BYTES = 200_000
IMPORT = re.compile(r"""^(?:import|export)\b[^;]*?\bfrom\s+"([^"]+)";""", re.MULTILINE | re.DOTALL)
LATER = re.compile(r"""\bimport\(\s*"([^"]+)"\s*\)""")
# A regular expression in a script.
PATTERN = re.compile(r"(?<=[(=,])\s*/(?:\[(?:[^\]\\]|\\.)*\]|[^/\[\\\n]|\\.)+/|!/\S+/")
LINK = re.compile(r'(?:href|src)="/console/([^"]+)"')
VENDOR = FOLDER / "vendor"
OWN = sorted(path for path in FOLDER.rglob("*.js") if path.parent != VENDOR)
# Ways by which a text could become code or markup, and words that ask another server.
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "dangerouslySetInnerHTML",
    "document.write",
    "srcdoc",
    "eval(",
    "new Function",
    "XMLHttpRequest",
    "sendBeacon",
    "importScripts",
)


def size(name: str) -> int:
    files = StaticFiles()
    file = files.find(name)
    assert file is not None, name
    return len(files.compressed(file) or file.body)


def imported(path: Path) -> set[Path]:
    found = {(path.parent / name).resolve() for name in IMPORT.findall(path.read_text())}
    return found | ({VENDOR / "preact.js"} if path.name == "hooks.js" else set())


def first_load() -> set[str]:
    """What a browser loads before it shows the list of agents."""
    names = {INDEX, *LINK.findall((FOLDER / INDEX).read_text())}
    waiting = [FOLDER / name for name in names if name.endswith(".js")]
    while waiting:
        path = waiting.pop()
        for each in imported(path):
            name = each.relative_to(FOLDER.resolve()).as_posix()
            if name not in names:
                names.add(name)
                waiting.append(each)
    return names


def test_the_page_is_small() -> None:
    assert sum(map(size, first_load())) <= FIRST_LOAD_BYTES
    assert sum(map(size, StaticFiles().names)) <= ALL_BYTES


def test_scripts_of_the_first_load_are_asked_for_at_once() -> None:
    named = set(LINK.findall((FOLDER / INDEX).read_text()))
    assert {name for name in first_load() if name.endswith(".js")} - named == set()


def test_libraries_are_as_their_authors_published_them() -> None:
    known = tomllib.loads((VENDOR / "VENDOR.toml").read_text())
    for each in known.values():
        found = hashlib.sha256((VENDOR / each["file"]).read_bytes()).hexdigest()
        assert found == each["sha256"], each["file"]
        assert (VENDOR / f"LICENSE.{each['package']}").exists()
    assert {each["file"] for each in known.values()} == {path.name for path in VENDOR.glob("*.js")}


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_a_script_imports_what_is_there_and_makes_no_markup_of_texts(path: Path) -> None:
    text = path.read_text()
    for name in (*IMPORT.findall(text), *LATER.findall(text)):
        assert name.startswith("."), name
        assert (path.parent / name).exists(), name
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_line_of_a_text_looks_like_a_comment(path: Path) -> None:
    """Lines that begin with `//` are left out when a script is served (`console/page/files.py`)."""
    backticks = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip().startswith("//"):
            assert backticks % 2 == 0, f"line {number} may be within a template"
        else:
            backticks += len(re.findall(r"(?<!\\)`", PATTERN.sub("", line)))


def test_every_style_and_script_is_used() -> None:
    texts = [path.read_text() for path in FOLDER.rglob("*") if path.suffix in (".js", ".html")]
    for path in (*FOLDER.glob("css/*.css"), *OWN):
        word = path.stem if path.suffix == ".css" else path.name
        assert any(word in text for text in texts), path
