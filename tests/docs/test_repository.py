"""What the repository promises about itself: reasons, locks, commands, no trace of a machine."""

import ast
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
JAVASCRIPT = ROOT / "tests" / "acceptance" / "js"

RUNTIME: list[str] = PYPROJECT["project"]["dependencies"]
GROUPS: dict[str, list[str]] = PYPROJECT["dependency-groups"]
LOCKED = {"runtime": RUNTIME} | {name: RUNTIME + group for name, group in GROUPS.items()}

# Links within the repository; a link with a scheme leads out of it.
LINK = re.compile(r"\]\((?P<path>[^)\s#:]*)(?:#(?P<place>[^)\s]+))?\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`(?=\()", re.MULTILINE | re.DOTALL)

PIN = re.compile(r"^([\w.-]+)==(\S+)(?P<rest>(?:.*\\\n)*.*)", re.MULTILINE)


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text()


def pins(name: str) -> dict[str, str]:
    return {canonicalize_name(pin[1]): pin[2] for pin in PIN.finditer(lock(name))}


def tracked_texts() -> Iterator[tuple[str, str]]:
    # In a container the checkout may belong to somebody else, which git would refuse to read.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listing.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_bytes().decode(errors="replace")


def tracked_pages() -> Iterator[tuple[str, str]]:
    yield from ((name, text) for name, text in tracked_texts() if name.endswith(".md"))


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "reference" / "dependencies.md").read_text()
    named = set(re.findall(r"^\| `([^`]+)` \| \S", page, re.MULTILINE))
    extras = PYPROJECT["project"].get("optional-dependencies", {})
    wanted = {
        Requirement(line).name
        for group in [RUNTIME, *GROUPS.values(), *extras.values()]
        for line in group
    }
    wanted |= set(json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"])
    assert named == wanted


@pytest.mark.parametrize("name", LOCKED)
def test_locks_pin_every_package_by_hash(name: str) -> None:
    found = list(PIN.finditer(lock(name)))
    assert found
    assert [pin[1] for pin in found if "--hash=sha256:" not in pin["rest"]] == []


@pytest.mark.parametrize("name", LOCKED)
def test_locks_name_no_place(name: str) -> None:
    assert not re.search(r"://|--(extra-)?index-url|--find-links|file:", lock(name))


@pytest.mark.parametrize("name", LOCKED)
def test_locks_fit_what_the_project_asks_for(name: str) -> None:
    locked = pins(name)
    for requirement in map(Requirement, LOCKED[name]):
        version = locked.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not in requirements/{name}.txt: run tools/lock"
        assert requirement.specifier.contains(version, prereleases=True), requirement


@pytest.mark.parametrize("name", GROUPS)
def test_everybody_runs_what_users_run(name: str) -> None:
    locked, users = pins(name), pins("runtime")
    if name == "frameworks":
        # google-adk allows no newer one; `tools/lock` says so as well.
        assert users.pop("websockets") > locked["websockets"] == "15.0.1"
    assert {package: locked.get(package) for package in users} == users


def test_javascript_is_pinned_and_locked_without_a_place() -> None:
    wanted = json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"]
    locked = json.loads((JAVASCRIPT / "package-lock.json").read_text())["packages"]
    packages = {name: entry for name, entry in locked.items() if name}
    versions = {name: packages[f"node_modules/{name}"]["version"] for name in wanted}
    # An alias says which package it stands for: `npm:PACKAGE@VERSION`.
    assert versions == {name: text.rpartition("@")[2] for name, text in wanted.items()}
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


@pytest.mark.parametrize("name", ["trunkline", "check", ".ci/run", "tools/lock"])
def test_commands_are_executable(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)


def test_no_file_names_a_machine_or_a_registry() -> None:
    # In pieces, so that this file does not match itself.
    hosts = [
        "pypi" + ".org",
        "python" + "hosted",
        "npm" + "js.org",
        "npm" + "js.com",
        "yarn" + "pkg",
    ]
    homes = ["/ro" + "ot/", "/Us" + "ers/", "/home/run" + "ner/"]
    # A short path, as in a container, is too common a word to look for.
    here = [str(path) + "/" for path in (ROOT, Path.home()) if len(path.parts) > 2]
    words = re.compile("|".join(map(re.escape, hosts + homes + here)))
    assert [(name, hit[0]) for name, text in tracked_texts() for hit in words.finditer(text)] == []


def test_all_python_is_type_checked() -> None:
    folders = {name.split("/")[0] for name, _ in tracked_texts() if name.endswith(".py")}
    assert folders <= set(PYPROJECT["tool"]["mypy"]["files"])


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([^)#:]+)\)", index))
    pages = {name.removeprefix("docs/") for name, _ in tracked_pages() if name.startswith("docs/")}
    assert pages - {"README.md"} - linked == set()


def test_every_link_leads_somewhere() -> None:
    pages = dict(tracked_pages())
    broken = [
        f"{name}: {link[0]}"
        for name, text in pages.items()
        for link in LINK.finditer(CODE.sub("", text))
        if not leads_somewhere(name, link["path"], link["place"], pages)
    ]
    assert broken == []


def leads_somewhere(page: str, path: str, place: str | None, pages: dict[str, str]) -> bool:
    found = Path(os.path.normpath(ROOT / Path(page).parent / path)) if path else ROOT / page
    if not found.exists():
        return False
    name = found.relative_to(ROOT).as_posix()
    return place is None or name not in pages or place in set(map(anchor, headings(pages[name])))


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", CODE.sub("", text), re.MULTILINE)


def anchor(heading: str) -> str:
    """As hosts of repositories make it from a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def unowned_tasks(source: str) -> Iterator[int]:
    """Lines with a call of `create_task` that is not one of an `asyncio.TaskGroup`."""
    tree = ast.parse(source)
    groups = {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name) and "TaskGroup" in ast.dump(item.context_expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_group = isinstance(owner, ast.Name) and owner.id in groups
            if node.func.attr == "create_task" and not is_group:
                yield node.lineno


def test_every_background_task_has_an_owner() -> None:
    """The linter refuses `asyncio.create_task`, and cannot see the method of a loop."""
    allowed = {"src/trunkline/background.py"}
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        if str(path.relative_to(ROOT)) not in allowed
        for line in unowned_tasks(path.read_text("utf-8"))
    ]
    assert found == []


def test_a_task_of_the_loop_is_found() -> None:
    assert list(unowned_tasks("loop.create_task(work())")) == [1]
    group = "async def f():\n async with asyncio.TaskGroup() as group:\n  group.create_task(work())"
    assert list(unowned_tasks(group)) == []


@pytest.mark.parametrize(
    "package", ["config", "engine", "model", "ports", "runtime", "server", "stores"]
)
def test_a_package_without_vendors_names_none(package: str) -> None:
    """The styles of OpenClaw are handed in, so that its quirks stay in its own places."""
    folder = ROOT / "src" / "trunkline" / package
    files = {path.relative_to(folder): path.read_text("utf-8") for path in folder.rglob("*.py")}
    assert files
    assert [str(path) for path, text in files.items() if "openclaw" in text.lower()] == []
