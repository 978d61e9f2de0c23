"""What the doctor learns from the list of models."""

import msgspec
import pytest

from trunkline.backends.openai.doctor import found
from trunkline.backends.openai.settings import OpenAIBackend as OpenAISettings
from trunkline.config.secret import Secret
from trunkline.ports.backend import Finding
from trunkline.remote.http import Answer

SETTINGS = OpenAISettings(base_url="http://x/v1", model="m", api_key=Secret("sk-123456"))


def levels(status: int, body: object) -> list[Finding]:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return found(SETTINGS, Answer(status, {}, raw))


def test_all_is_well() -> None:
    assert [finding.level for finding in levels(200, {"data": [{"id": "m"}]})] == ["ok", "ok"]


def test_a_model_that_is_not_listed() -> None:
    missing = levels(200, {"data": [{"id": f"m{number}"} for number in range(9)]})[1]
    assert missing.level == "warning"
    assert missing.remedy.startswith("It lists: m0, m1, m2, m3, m4, ….")
    assert levels(200, [])[1].remedy.startswith("It lists: none.")


def test_a_server_without_a_list() -> None:
    assert [finding.level for finding in levels(404, {})] == ["ok", "warning"]
    assert levels(404, {})[1].remedy == "Run `trunkline agent try` to see whether it answers."


def test_without_a_list_the_usual_end_of_the_url_is_missed() -> None:
    settings = OpenAISettings(base_url="http://x", model="m")
    assert found(settings, Answer(404, {}, b""))[1].remedy.startswith(
        "Check base_url: it usually ends with /v1. Run "
    )


@pytest.mark.parametrize("body", [b"<html>", {"data": 4}, {}, 4])
def test_something_else_answers(body: object) -> None:
    [finding] = levels(200, body)
    assert (finding.level, "not an answer" in finding.what) == ("error", True)


def test_a_wrong_key_is_not_repeated() -> None:
    [finding] = levels(401, {"error": {"message": "no such key: sk-123456"}})
    assert finding.level == "error"
    assert finding.remedy == "Check api_key."
    assert "sk-123456" not in finding.what
