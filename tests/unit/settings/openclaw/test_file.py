"""Reading the file: JSON5, or the same as YAML."""

from pathlib import Path

import pytest

from trunkline.model.errors import ConfigError
from trunkline.settings.openclaw.file import parse, read

SECRET = "hunter2-hunter2-hunter2"


def fault(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, source="openclaw.json")
    return caught.value.message


def test_json5_is_read(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(
        "\ufeff// mine\n/* and\n { yours */ {channels: {'a2a': {accounts: {}}}, n: 0x10, t: [1,],}",
        "utf-8",
    )
    assert read(file) == {"channels": {"a2a": {"accounts": {}}}, "n": 16, "t": [1]}


def test_plain_json_is_read() -> None:
    assert parse('{"a2a": {"server": {"path": "/a2a"}}}', source="x") == {
        "a2a": {"server": {"path": "/a2a"}}
    }


def test_yaml_is_read_when_the_text_is_no_json5() -> None:
    text = "# openclaw.json\na2a:\n  server:\n    enabled: true\n    publicUrl: https://a.example\n"
    server = {"enabled": True, "publicUrl": "https://a.example"}
    assert parse(text, source="x") == {"a2a": {"server": server}}


def test_keys_of_yaml_are_texts() -> None:
    assert parse("a: [{1: 2}]", source="x") == {"a": [{"1": 2}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n  a: }", "line 2, column 6: not JSON5: unexpected character."),
        (
            f'{{\n  key: "{SECRET}',
            "line 2, column 8: not JSON5: something that begins here is not closed.",
        ),
        (
            f'{{key: "{SECRET}",\n',
            "line 1, column 1: not JSON5: something that begins here is not closed.",
        ),
        ("{}\n{}", "line 1, column 2: not JSON5: something follows the end of the document."),
        ("{a:" * 2000, "not JSON5: nested too deeply."),
        (
            f'a:\n  key: "{SECRET}',
            "line 2, column 32: neither JSON5, which begins with {, nor YAML.",
        ),
        ("a:\n\t- b", "line 2, column 1: neither JSON5, which begins with {, nor YAML."),
        ("a: &x [*x]", "line 1, column 8: YAML aliases are not read. Write the value out."),
        ("a: " + "[" * 600 + "]" * 600, "nested too deeply."),
        ("a: \x00", "neither JSON5 nor YAML: it holds characters that neither may have."),
    ],
)
def test_an_error_names_the_place_and_quotes_nothing(text: str, message: str) -> None:
    found = fault(text)
    assert found.startswith("openclaw.json")
    assert found.endswith(message)
    assert SECRET not in found


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b", "[1]"])
def test_a_document_is_an_object(text: str) -> None:
    assert fault(text).startswith("openclaw.json: not an object.")


def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file\. Give the path of your openclaw.json"):
        read(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{a: "\xe9"}')
    with pytest.raises(ConfigError, match="not UTF-8 at byte 5"):
        read(tmp_path / "latin.json")
