import pytest

from trunkline.settings.hub_audit import HubAuditSettings, hub_audit_problems


@pytest.mark.parametrize("text", ["CASE-######", "*@acme.example", "a*b*c", "x" * 100])
def test_texts_to_hide(text: str) -> None:
    assert list(hub_audit_problems(HubAuditSettings(redact=(text,)))) == []


@pytest.mark.parametrize("text", ["", "*", "* *", "a*b*c*d", "x" * 101])
def test_texts_that_cannot_be_looked_for_name_the_key(text: str) -> None:
    (problem,) = hub_audit_problems(HubAuditSettings(redact=("fine", text)))
    assert problem.path == ("hub", "audit", "redact")
