"""Kinds of backends: which of them the hub keeps from private addresses."""

from typing import get_args

from trunkline.settings.backends import CALLING_KINDS, BackendSettings


def test_every_kind_with_a_url_can_be_kept_from_private_addresses() -> None:
    with_url = {
        table.__struct_config__.tag
        for table in get_args(BackendSettings)
        if any(name.endswith("url") for name in table.__struct_fields__)
    }
    assert with_url == CALLING_KINDS == {"a2a", "openai", "openclaw"}
