import json
import pickle

import msgspec
import pytest
from tests.unit.settings.documents import KEY, made

from trunkline.config.secret import Secret
from trunkline.settings import effective
from trunkline.settings.show import to_toml

SECRET = Secret(KEY)


def test_a_secret_is_never_shown() -> None:
    assert [str(SECRET), repr(SECRET), f"{SECRET}", f"{SECRET!r:>4}"] == ["***"] * 3 + [" ***"]
    assert "%s" % SECRET == "***"  # noqa: UP031
    assert KEY not in repr(made(auth={"keys": {"ci": {"key": KEY}}}))
    with pytest.raises(TypeError):
        msgspec.json.encode(SECRET)
    with pytest.raises(TypeError):
        json.dumps(SECRET)
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)


def test_a_secret_can_be_used() -> None:
    assert SECRET.reveal() == KEY
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")


def test_settings_are_shown_without_secrets() -> None:
    document = effective(made(auth={"keys": {"ci": {"key": KEY}}}))
    assert document["auth"]["keys"] == {"ci": {"key": "***", "attach": []}}
    assert KEY not in json.dumps(document) + to_toml(document)
