from pathlib import Path

import pytest
from typer.testing import CliRunner

from trunkline.cli.commands import app


def test_why_code_cannot_be_imported_is_said_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("import no_such_module\n")
    Path("trunkline.toml").write_text(
        '[server]\nport = 0\n[store]\nkind = "memory"\n'
        '[agents."me/broken"]\nbackend = { kind = "python", target = "broken.py" }\n'
    )
    result = CliRunner().invoke(app, ["doctor", "--config", "trunkline.toml", "--quiet"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-5:] == [
        '✗ agents."me/broken": broken.py could not be imported.',
        f"    {tmp_path}/broken.py, line 1: import no_such_module",
        "    ModuleNotFoundError: No module named 'no_such_module'",
        "    Install no_such_module into this Python, or correct the import.",
        "2 ok, 1 warning, 1 error",
    ]
