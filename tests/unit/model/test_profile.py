import msgspec
import pytest

from trunkline.model.profile import Profile, doc


def test_the_defaults_keep_to_the_bounds_of_their_keys() -> None:
    # Making a struct checks nothing; reading one does.
    assert msgspec.convert(msgspec.to_builtins(Profile()), Profile) == Profile()


@pytest.mark.parametrize(
    "key",
    [
        {"retention_s": -1.0},
        {"max_queue_per_context": 0},
        {"task_deadline_s": 0.0},
        {"dialect": "v0.2"},
        {"on_restart": ["forget"]},
        {"cancel_unsupported_code": -32000},
    ],
)
def test_a_value_out_of_bounds_is_refused(key: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(key, Profile)


def test_a_description_comes_with_the_bounds_of_its_key() -> None:
    made = doc("Seconds.", gt=0)
    assert (made.description, made.gt) == ("Seconds.", 0)
