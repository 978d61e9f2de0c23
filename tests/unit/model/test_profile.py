import msgspec
import pytest

from trunkline.model.profile import NOT_AVAILABLE, PRESETS, Profile, preset

KEYS = set(Profile.__struct_fields__)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_keeps_to_the_bounds_of_its_keys(name: str) -> None:
    made = preset(name)
    # Making a struct checks nothing; reading one does.
    assert msgspec.convert(msgspec.to_builtins(made), Profile) == made


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
