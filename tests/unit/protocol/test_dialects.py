from typing import Literal

import pytest

from trunkline.model.calls import Operation
from trunkline.model.profile import Profile
from trunkline.protocol.dialects import dialects_for
from trunkline.protocol.operations import METHODS, PUSH
from trunkline.protocol.versions import Version
from trunkline.settings.profiles import preset


def test_by_default_all_is_spoken_under_its_own_names() -> None:
    spoken = dialects_for(Profile())
    assert spoken.versions == tuple(Version)
    assert spoken.only is spoken.unstated is None
    assert spoken.methods == METHODS
    assert spoken.hidden == frozenset()
    assert spoken.card_form is None
    assert not spoken.errors.is_in_stream


@pytest.mark.parametrize(
    ("profile", "version", "form"),
    [
        (Profile(dialect="v1.0"), Version.V1_0, None),
        (Profile(dialect="v0.3", default_version="0.3"), Version.V0_3, "0.3"),
        (Profile(dialect="v0.3-legacy", default_version="0.3"), Version.V0_3, "0.3"),
    ],
)
def test_one_version_alone(profile: Profile, version: Version, form: str | None) -> None:
    spoken = dialects_for(profile)
    assert spoken.versions == (version,)
    assert spoken.only is version
    assert {known for known, methods in spoken.methods.items() if methods} == {version}
    assert spoken.unstated is version
    assert spoken.card_form == form


@pytest.mark.parametrize("dialect", ["auto", "v1.0"])
def test_with_0_3_as_the_default_the_form_of_a_request_does_not_count(
    dialect: Literal["auto", "v1.0"],
) -> None:
    spoken = dialects_for(Profile(dialect=dialect, default_version="0.3"))
    assert spoken.unstated is Version.V0_3


def test_what_is_hidden_has_no_name() -> None:
    profile = Profile(list_tasks="hidden", cancel="unsupported", cancel_unsupported_code=-32601)
    spoken = dialects_for(profile)
    assert spoken.hidden == {Operation.LIST_TASKS, Operation.CANCEL_TASK}
    for methods in spoken.methods.values():
        assert not spoken.hidden & set(methods.values())


def test_cancel_that_is_refused_by_another_code_has_a_name() -> None:
    assert dialects_for(Profile(cancel="unsupported")).hidden == frozenset()


def test_an_openclaw_knows_five_methods_and_a_card() -> None:
    spoken = dialects_for(preset("openclaw-inbound"))
    assert spoken.hidden >= PUSH
    assert set(spoken.methods[Version.V0_3]) == {
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "agent/getAuthenticatedExtendedCard",
    }
    assert spoken.errors.takes_notifications
    assert spoken.errors.is_in_stream
