import webbrowser
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_serve import serve_info
from typer.testing import CliRunner

from trunkline.app import operator_client
from trunkline.cli.commands import app
from trunkline.cli.serve import screen

run = CliRunner().invoke
URL = "http://127.0.0.1:8642/?code=abc"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []

    def open_url(url: str) -> bool:
        urls.append(url)
        return True

    def call(store: Any, command: str, *_: Any, **__: Any) -> Any:
        assert command == "open"
        return {"url": URL}

    monkeypatch.setattr(webbrowser, "open", open_url)
    monkeypatch.setattr(operator_client, "call_gateway", call)
    return urls


def test_the_page_is_opened_and_its_url_printed(opened: list[str], tmp_path: Path) -> None:
    result = run(app, ["open", "--data", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, f"{URL}\n")
    assert opened == [URL]


def test_the_url_is_only_printed(opened: list[str], tmp_path: Path) -> None:
    result = run(app, ["open", "--print", "--data", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, f"{URL}\n")
    assert opened == []


def test_a_machine_without_a_browser_gets_the_url(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    result = run(app, ["open", "--data", str(tmp_path)])
    assert result.exit_code == 0
    assert result.stdout == f"{URL}\n"
    assert "No browser could be started" in result.stderr


def test_a_gateway_in_memory_has_its_url_at_the_start_alone(opened: list[str]) -> None:
    result = run(app, ["open", "--db", "memory:"])
    assert result.exit_code != 0
    assert "`trunkline serve` printed at its start" in result.output
    assert opened == []


def test_without_a_gateway_there_is_no_page(tmp_path: Path) -> None:
    result = run(app, ["open", "--data", str(tmp_path)])
    assert result.exit_code == 15
    assert "there is no page to open" in result.output


def test_the_screen_has_the_page_below_the_gateway() -> None:
    lines = screen(serve_info(page_url=URL)).splitlines()
    assert lines[1] == f"Page      {URL}"
    assert "Page" not in screen(serve_info())
