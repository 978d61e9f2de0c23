"""Presets, keys on top of them, and keys that do not go together."""

from typing import Any

import msgspec
import pytest

from trunkline.model.profile import Profile
from trunkline.settings import InvalidSettings, Settings, from_document
from trunkline.settings.openclaw.profile import ProfileSettings
from trunkline.settings.profiles import NOT_AVAILABLE, PRESETS, preset

KEYS = set(ProfileSettings.__struct_fields__)


def read(**agent: Any) -> Settings:
    table = {"name": "A", "backend": {"kind": "echo"}, **agent}
    return from_document({"agents": {"a/b": table}}, environment={})


def profile_of(**agent: Any) -> Profile:
    return read(**agent).agents["a/b"].own_profile()


def test_the_default_is_standard() -> None:
    assert profile_of() == Profile() == preset("standard")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_valid_as_it_is(name: str) -> None:
    assert profile_of(profile=name) == preset(name)


@pytest.mark.parametrize("name", PRESETS)
def test_any_key_wins_over_the_preset(name: str) -> None:
    assert profile_of(profile=name, max_concurrency=3) == preset(name, max_concurrency=3)


def test_a_key_may_say_again_what_standard_says() -> None:
    assert profile_of(profile="openclaw-inbound", files="accept").files == "accept"


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidSettings, match=r'profile = "hubb": .*"hub"'):
        read(profile="hubb")


@pytest.mark.parametrize("key", NOT_AVAILABLE)
def test_keys_of_later_features_are_refused_as_not_available(key: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"{key}: not available"):
        read(**{key: True})


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"dialect": "v0.3"}, "default_version", "speaks 0.3 alone"),
        ({"dialect": "v0.3-legacy"}, "default_version", "speaks 0.3 alone"),
        (
            {"dialect": "v0.3", "default_version": "0.3", "tenants": ["t"]},
            "tenants",
            "0.3 has no tenants",
        ),
        ({"error_style": "openclaw-inbound"}, "error_style", "speaks 1.0"),
        (
            {"message_checks": "openclaw-inbound", "dialect": "v1.0"},
            "message_checks",
            'dialect = "v1.0"',
        ),
        ({"addresses": "exact", "rest_path": "/rest"}, "rest_path", "no HTTP+JSON"),
        ({"busy": "fail", "queued_send": "return"}, "queued_send", "nothing ever waits"),
        ({"busy": "fail", "overflow": "error"}, "overflow", "no queue is ever full"),
        ({"stateless_context": "echo"}, "stateless_context", "takes every contextId"),
        ({"reply_wait_s": 9, "task_deadline_s": 5}, "reply_wait_s", "task_deadline_s = 5"),
        ({"on_reply_wait": "fail"}, "on_reply_wait", "reply_wait_s is 0"),
        ({"addresses": "exact", "rest_path": "/x"}, "rest_path", "no HTTP+JSON"),
        (
            {"cancel": "unsupported", "cancel_terminal": "passthrough"},
            "cancel_terminal",
            'cancel = "unsupported"',
        ),
        (
            {"wire_style": "hub", "agent_style": "task-generating", "default_version": "0.3"},
            "wire_style",
            "takes them for A2A 0.3",
        ),
        (
            {"profile": "hub", "dialect": "v0.3", "default_version": "0.3"},
            "wire_style",
            'dialect = "v0.3"',
        ),
        ({"wire_style": "hub"}, "wire_style", "no form for a message"),
        ({"promote_after_ms": 5}, "promote_after_ms", "may stay without a task"),
        ({"result_in": ["artifact", "history"]}, "result_in", "message of the status"),
        ({"result_in": []}, "result_in", "needs a place"),
        ({"result_in": ["status"]}, "result_in", 'stream_shape = "events"'),
        ({"on_restart": []}, "on_restart", "needs exactly one word"),
        ({"on_restart": ["resume_queued"]}, "on_restart", "needs exactly one word"),
        ({"on_restart": ["fail_running", "retry_running"]}, "on_restart", "needs exactly one word"),
        ({"on_restart": ["fail_running", "fail_running"]}, "on_restart", "needs exactly one word"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(
    keys: dict[str, Any], key: str, reason: str
) -> None:
    with pytest.raises(InvalidSettings) as caught:
        read(**keys)
    text = str(caught.value)
    assert f'agents."a/b".{key}' in text
    assert reason in text
    # Every refusal ends with what to do.
    assert any(word in text for word in ("Set ", "Add ", "Remove ", "Make ", "Name "))


def test_a_misfit_is_not_reported_twice() -> None:
    with pytest.raises(InvalidSettings) as caught:
        read(dialect="v9", default_version="0.3")
    assert "default_version" not in str(caught.value)


def test_an_agent_of_1_0_alone_may_insist_on_a_version() -> None:
    """Without `A2A-Version` a request is of 0.3, which this agent does not speak."""
    profile = profile_of(dialect="v1.0", default_version="0.3")
    assert (profile.dialect, profile.default_version) == ("v1.0", "0.3")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_keeps_to_the_bounds_of_its_keys(name: str) -> None:
    made = ProfileSettings(**PRESETS[name])
    # Making a struct checks nothing; reading one does.
    assert msgspec.convert(msgspec.to_builtins(made), ProfileSettings) == made


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_nothing_but_keys_of_a_profile(name: str) -> None:
    assert set(PRESETS[name]) <= KEYS


def test_a_change_wins_over_the_preset() -> None:
    assert preset("hub").retention_s == 1800.0
    changed = preset("hub", retention_s=5.0)
    assert changed == msgspec.structs.replace(preset("hub"), retention_s=5.0)


def test_a_preset_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        preset("no such preset")


def test_keys_of_features_to_come_are_no_keys_yet() -> None:
    assert KEYS.isdisjoint(NOT_AVAILABLE)
