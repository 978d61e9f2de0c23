import pytest

from trunkline.backends.a2a.upstream import reconnects_within
from trunkline.remote import Limits


@pytest.mark.parametrize(
    ("retry_s", "count"), [(0.1, 0), (0.5, 1), (1.0, 2), (60.0, Limits().reconnects)]
)
def test_a_stream_is_not_resumed_for_longer_than_its_turn_would_try(
    retry_s: float, count: int
) -> None:
    assert reconnects_within(retry_s) == count
